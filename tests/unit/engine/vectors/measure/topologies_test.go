// Measures what Kueue's own scheduler decides on the scenarios of a file, one JSON object a line.
//
// Copy into pkg/scheduler of sigs.k8s.io/kueue v0.19.2 and run
//
//	VECTORS_IN=scenarios.jsonl VECTORS_OUT=vectors.jsonl go test ./pkg/scheduler -run TestMeasureTopologies
//
// Each scenario is run twice; one whose runs differ, or that never settles, is left out.
package scheduler

import (
	"bufio"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	tasindexer "sigs.k8s.io/kueue/pkg/controller/tas/indexer"
	preemptexpectations "sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	"sigs.k8s.io/kueue/pkg/util/routine"
	"sigs.k8s.io/kueue/pkg/util/tas"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"
)

type topologyVector struct {
	Levels []string      `json:"levels"`
	Nodes  []corev1.Node `json:"nodes"`
	Steps  []struct {
		Submit *kueue.Workload `json:"submit"`
		Finish string          `json:"finish"`
	} `json:"steps"`
}

func measureTopology(t *testing.T, v *topologyVector) []map[string]any {
	ctx, log := utiltesting.ContextWithLog(t)
	topo := kueue.Topology{ObjectMeta: metav1.ObjectMeta{Name: "topo"}}
	for _, l := range v.Levels {
		topo.Spec.Levels = append(topo.Spec.Levels, kueue.TopologyLevel{NodeLabel: l})
	}
	for i := range v.Nodes {
		v.Nodes[i].Labels["vectors"] = "all"
	}
	lq := *utiltestingapi.MakeLocalQueue("queue", "team").ClusterQueue("cq").Obj()
	cb := utiltesting.NewClientBuilder().
		WithLists(&kueue.TopologyList{Items: []kueue.Topology{topo}}, &corev1.NodeList{Items: v.Nodes}, &kueue.LocalQueueList{Items: []kueue.LocalQueue{lq}}).
		WithObjects(utiltesting.MakeNamespace("team")).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: utiltesting.TreatSSAAsStrategicMerge}).
		WithStatusSubresource(&kueue.Workload{})
	_ = tasindexer.SetupIndexes(ctx, utiltesting.AsIndexer(cb))
	cl := cb.Build()
	cache := schdcache.New(cl)
	exp := preemptexpectations.New()
	queues, requeuer := qcache.NewManagerForUnitTestsWithRequeuer(cl, cache, qcache.WithPreemptionExpectations(exp))
	for i := range v.Nodes {
		cache.TASCache().SyncNode(&v.Nodes[i])
	}
	rf := utiltestingapi.MakeResourceFlavor("flavor").NodeLabel("vectors", "all").TopologyName("topo").Obj()
	cache.AddOrUpdateResourceFlavor(log, rf)
	cache.AddOrUpdateTopology(log, &topo)
	cq := utiltestingapi.MakeClusterQueue("cq").ResourceGroup(*utiltestingapi.MakeFlavorQuotas("flavor").Resource("cpu", "10000").Resource("nvidia.com/gpu", "10000").Obj()).Obj()
	if err := cache.AddClusterQueue(ctx, cq); err != nil {
		t.Fatal(err)
	}
	if err := queues.AddClusterQueue(ctx, cq); err != nil {
		t.Fatal(err)
	}
	if err := queues.AddLocalQueue(ctx, &lq); err != nil {
		t.Fatal(err)
	}
	clock := testingclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	s := New(queues, cache, cl, &utiltesting.EventRecorder{}, WithClock(t, clock), WithPreemptionExpectations(exp))
	wg := sync.WaitGroup{}
	s.setAdmissionRoutineWrapper(routine.NewWrapper(func() { wg.Add(1) }, func() { wg.Done() }))
	list := func() []kueue.Workload {
		var l kueue.WorkloadList
		_ = cl.List(ctx, &l)
		return l.Items
	}
	var out []map[string]any
	for i := range v.Steps {
		st := &v.Steps[i]
		clock.SetTime(clock.Now().Add(time.Second))
		if st.Finish != "" {
			for _, wl := range list() {
				if wl.Name == st.Finish {
					k := workload.Key(&wl)
					queues.QueueAssociatedInadmissibleWorkloadsAfter(ctx, k, func() { _ = cache.DeleteWorkload(log, k) })
					queues.DeleteAndForgetWorkload(log, k)
					_ = cl.Delete(ctx, &wl)
				}
			}
			requeuer.ProcessRequeues(ctx)
		}
		if st.Submit != nil {
			wl := st.Submit.DeepCopy()
			wl.CreationTimestamp = metav1.NewTime(clock.Now())
			wl.UID = types.UID("uid-" + wl.Name)
			if err := cl.Create(ctx, wl); err != nil {
				t.Fatal(err)
			}
			if err := queues.AddOrUpdateWorkload(log, wl); err != nil {
				t.Fatal(err)
			}
		}
		for n := 0; n < 30 && len(queues.Dump()) > 0; n++ {
			s.schedule(ctx)
			wg.Wait()
			for _, wl := range list() {
				if workload.HasQuotaReservation(&wl) {
					queues.DeleteWorkload(log, workload.Key(&wl))
				}
			}
		}
		e := map[string]any{"admitted": map[string]any{}, "pending": []string{}}
		pend := []string{}
		for _, wl := range list() {
			if workload.HasQuotaReservation(&wl) {
				m := map[string]any{}
				for _, p := range wl.Status.Admission.PodSetAssignments {
					d := map[string]int32{}
					if p.TopologyAssignment != nil {
						for _, x := range tas.InternalFrom(p.TopologyAssignment).Domains {
							d[strings.Join(x.Values, "/")] += x.Count
						}
					}
					m[string(p.Name)] = map[string]any{"count": *p.Count, "topology": d}
				}
				e["admitted"].(map[string]any)[wl.Name] = m
			} else {
				pend = append(pend, wl.Name)
				if st.Submit != nil && wl.Name == st.Submit.Name {
					if c := apimeta.FindStatusCondition(wl.Status.Conditions, "QuotaReserved"); c != nil {
						e["message"] = c.Message
					}
				}
			}
		}
		e["pending"] = pend
		out = append(out, e)
	}
	return out
}

func TestMeasureTopologies(t *testing.T) {
	in, err := os.Open(os.Getenv("VECTORS_IN"))
	if err != nil {
		t.Skip()
	}
	out, _ := os.Create(os.Getenv("VECTORS_OUT"))
	r := bufio.NewReaderSize(in, 1<<20)
	n, skipped := 0, 0
	for {
		line, err := r.ReadBytes('\n')
		if len(line) == 0 && err != nil {
			break
		}
		var raw map[string]any
		_ = json.Unmarshal(line, &raw)
		var a, b topologyVector
		_ = json.Unmarshal(line, &a)
		_ = json.Unmarshal(line, &b)
		e1, e2 := measureTopology(t, &a), measureTopology(t, &b)
		n++
		j1, _ := json.Marshal(e1)
		j2, _ := json.Marshal(e2)
		var x, y any
		_ = json.Unmarshal(j1, &x)
		_ = json.Unmarshal(j2, &y)
		if !reflect.DeepEqual(x, y) {
			skipped++
			continue
		}
		raw["expect"] = x
		j, _ := json.Marshal(raw)
		out.Write(append(j, '\n'))
	}
	t.Logf("ran %d skipped %d", n, skipped)
}
