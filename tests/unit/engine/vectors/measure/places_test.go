// Measures where Kueue's own code places pods, and where it moves those of a failed node, for the vectors of a file.
//
// Copy into pkg/cache/scheduler of sigs.k8s.io/kueue v0.19.2 and run
//
//	VECTORS_IN=places.jsonl VECTORS_OUT=measured.jsonl go test ./pkg/cache/scheduler -run TestMeasurePlaces
package scheduler

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	tasindexer "sigs.k8s.io/kueue/pkg/controller/tas/indexer"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/resources"
	"sigs.k8s.io/kueue/pkg/util/tas"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	testingnode "sigs.k8s.io/kueue/pkg/util/testingjobs/node"
)

type placesNode struct {
	Name  string `json:"name"`
	Block string `json:"block"`
	Rack  string `json:"rack"`
	Zone  string `json:"zone"`
	GPUs  int64  `json:"gpus"`
}

type placesPodSet struct {
	Name          string   `json:"name"`
	Count         int32    `json:"count"`
	GPUs          int64    `json:"gpus"`
	Required      *string  `json:"required,omitempty"`
	Preferred     *string  `json:"preferred,omitempty"`
	Unconstrained *bool    `json:"unconstrained,omitempty"`
	Slices        [][2]any `json:"slices,omitempty"`
	Group         *string  `json:"group,omitempty"`
	PrefersZone   string   `json:"prefersZone,omitempty"`
}

type placesVector struct {
	Balanced bool           `json:"balanced"`
	Levels   []string       `json:"levels"`
	Nodes    []placesNode   `json:"nodes"`
	PodSets  []placesPodSet `json:"podSets"`
	Placed   map[string]any `json:"placed"`
	Failed   string         `json:"failed,omitempty"`
	Replaced map[string]any `json:"replaced,omitempty"`
}

func TestMeasurePlaces(t *testing.T) {
	in, err := os.Open(os.Getenv("VECTORS_IN"))
	if err != nil {
		t.Skip("no VECTORS_IN")
	}
	out, err := os.Create(os.Getenv("VECTORS_OUT"))
	if err != nil {
		t.Fatal(err)
	}
	features.SetFeatureGateDuringTest(t, features.TASRespectNodeAffinityPreferred, true)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var v placesVector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		features.SetFeatureGateDuringTest(t, features.TASBalancedPlacement, v.Balanced)
		first := v.find(t, v.Nodes, nil)
		v.Placed = shownPlaces(first)
		if v.Failed != "" {
			left := slices.DeleteFunc(slices.Clone(v.Nodes), func(n placesNode) bool { return n.Name == v.Failed })
			v.Replaced = shownPlaces(v.find(t, left, first))
		}
		if err := encoder.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
}

// find places all pod sets; with what is held, only the pods of those that have some on the failed node.
func (v *placesVector) find(t *testing.T, nodes []placesNode, held TASAssignmentsResult) TASAssignmentsResult {
	ctx, log := utiltesting.ContextWithLog(t)
	builder := utiltesting.NewClientBuilder()
	_ = tasindexer.SetupIndexes(ctx, utiltesting.AsIndexer(builder))
	cache := NewTASCache(builder.Build(), newDefaultSimulator(), resources.NewResourceFormatter())
	for _, n := range nodes {
		cache.SyncNode(testingnode.MakeNode(n.Name).Label("block", n.Block).Label("rack", n.Rack).Label("zone", n.Zone).
			Label(corev1.LabelHostname, n.Name).
			StatusAllocatable(corev1.ResourceList{
				"gpu":               resource.MustParse(fmt.Sprint(n.GPUs)),
				corev1.ResourcePods: resource.MustParse("20"),
			}).Ready().Obj())
	}
	var usage map[tas.TopologyDomainID]resources.Requests
	var options []FindTopologyAssignmentsOption
	podSets := v.PodSets
	if held != nil {
		usage = map[tas.TopologyDomainID]resources.Requests{}
		wl := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Name: "w", UID: "u"}}
		wl.Status.UnhealthyNodes = []kueue.UnhealthyNode{{Name: v.Failed}}
		wl.Status.Admission = &kueue.Admission{}
		podSets = nil
		for _, p := range v.PodSets {
			places := held[kueue.PodSetReference(p.Name)].TopologyAssignment
			for id, used := range tas.ComputeUsagePerDomain(places, p.requests()) {
				if usage[id] == nil {
					usage[id] = resources.NewRequests()
				}
				usage[id].Add(used)
			}
			wl.Status.Admission.PodSetAssignments = append(wl.Status.Admission.PodSetAssignments, kueue.PodSetAssignment{
				Name: kueue.PodSetReference(p.Name), TopologyAssignment: tas.V1Beta2From(places),
			})
			onIt := func(d tas.TopologyDomainAssignment) bool { return d.Values[len(d.Values)-1] == v.Failed }
			if slices.ContainsFunc(places.Domains, onIt) {
				podSets = append(podSets, p)
			}
		}
		options = append(options, WithWorkload(wl))
	}
	flavor := cache.NewTASFlavorCache(topologyInformation{Levels: v.Levels}, flavorInformation{TopologyName: "default"})
	snapshot, err := flavor.snapshot(ctx, log, usage)
	if err != nil {
		t.Fatal(err)
	}
	asked := FlavorTASRequests{}
	for _, p := range podSets {
		asked = append(asked, p.asked())
	}
	return snapshot.FindTopologyAssignmentsForFlavor(ctx, asked, options...)
}

func (p *placesPodSet) requests() resources.Requests {
	return resources.NewRequestsFromMap(map[corev1.ResourceName]int64{"gpu": p.GPUs})
}

func (p *placesPodSet) asked() TASPodSetRequests {
	request := &kueue.PodSetTopologyRequest{Required: p.Required, Preferred: p.Preferred, Unconstrained: p.Unconstrained}
	for _, s := range p.Slices {
		request.PodsetSliceRequiredTopologyConstraints = append(request.PodsetSliceRequiredTopologyConstraints,
			kueue.PodsetSliceRequiredTopologyConstraint{Topology: s[0].(string), Size: int32(s[1].(float64))})
	}
	implied := p.Required == nil && p.Preferred == nil && p.Unconstrained == nil && len(p.Slices) == 0
	podSet := &kueue.PodSet{Name: kueue.PodSetReference(p.Name), TopologyRequest: request}
	if implied {
		podSet.TopologyRequest = nil
	}
	if p.PrefersZone != "" {
		zone := corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{p.PrefersZone}}
		term := corev1.PreferredSchedulingTerm{
			Weight: 5, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{zone}},
		}
		podSet.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{term},
		}}
	}
	return TASPodSetRequests{
		PodSet: podSet, SinglePodRequests: p.requests(), Count: p.Count, Implied: implied, PodSetGroupName: p.Group,
	}
}

// shownPlaces gives [values, pods] pairs for each pod set, or the words where there is no place.
func shownPlaces(found TASAssignmentsResult) map[string]any {
	shown := map[string]any{}
	for name, each := range found {
		if each.FailureReason != "" {
			shown[string(name)] = each.FailureReason
			continue
		}
		pairs := [][2]any{}
		for _, d := range each.TopologyAssignment.Domains {
			pairs = append(pairs, [2]any{d.Values, d.Count})
		}
		shown[string(name)] = pairs
	}
	return shown
}
