// Measures what Kueue's own scheduler decides on the scenarios of a file, one JSON object a line.
//
// Copy into pkg/scheduler of sigs.k8s.io/kueue v0.19.2 and run
//
//	VECTORS_IN=scenarios.jsonl VECTORS_OUT=vectors.jsonl go test ./pkg/scheduler -run TestMeasureScenarios
//
// Each scenario is run twice; one whose runs differ, or that never settles, is left out.
package scheduler

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	config "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	preemptexpectations "sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	"sigs.k8s.io/kueue/pkg/util/routine"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	"sigs.k8s.io/kueue/pkg/workload"
)

type vectorStep struct {
	Finish []string         `json:"finish"`
	Submit []kueue.Workload `json:"submit"`
}
type vectorScenario struct {
	Name            string                 `json:"name"`
	FairSharing     bool                   `json:"fairSharing"`
	Namespaces      []corev1.Namespace     `json:"namespaces"`
	ResourceFlavors []kueue.ResourceFlavor `json:"resourceFlavors"`
	Cohorts         []kueue.Cohort         `json:"cohorts"`
	ClusterQueues   []kueue.ClusterQueue   `json:"clusterQueues"`
	LocalQueues     []kueue.LocalQueue     `json:"localQueues"`
	Admitted        []kueue.Workload       `json:"admitted"`
	Steps           []vectorStep           `json:"steps"`
}
type given struct {
	ClusterQueue string                       `json:"clusterQueue"`
	PodSets      map[string]map[string]string `json:"podSets"`
	Counts       map[string]int32             `json:"counts"`
}
type vectorCycle struct {
	Admitted  map[string]given  `json:"admitted"`
	Preempted map[string]string `json:"preempted"`
}
type vectorExpect struct {
	Cycles  []vectorCycle    `json:"cycles"`
	Running map[string]given `json:"running"`
	Pending []string         `json:"pending"`
}

func givenOf(wl *kueue.Workload) given {
	g := given{ClusterQueue: string(wl.Status.Admission.ClusterQueue), PodSets: map[string]map[string]string{}, Counts: map[string]int32{}}
	for _, p := range wl.Status.Admission.PodSetAssignments {
		f := map[string]string{}
		for r, n := range p.Flavors {
			f[string(r)] = string(n)
		}
		g.PodSets[string(p.Name)] = f
		if p.Count != nil {
			g.Counts[string(p.Name)] = *p.Count
		}
	}
	return g
}

func measureScenario(t *testing.T, sc *vectorScenario) []vectorExpect {
	ctx, log := utiltesting.ContextWithLog(t)
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cb := utiltesting.NewClientBuilder().
		WithLists(&corev1.NamespaceList{Items: sc.Namespaces}, &kueue.LocalQueueList{Items: sc.LocalQueues}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: utiltesting.TreatSSAAsStrategicMerge}).
		WithStatusSubresource(&kueue.Workload{})
	cl := cb.Build()
	recorder := &utiltesting.EventRecorder{}
	cache := schdcache.New(cl, schdcache.WithFairSharing(sc.FairSharing))
	exp := preemptexpectations.New()
	queues, requeuer := qcache.NewManagerForUnitTestsWithRequeuer(cl, cache, qcache.WithPreemptionExpectations(exp))
	for i := range sc.ResourceFlavors {
		cache.AddOrUpdateResourceFlavor(log, &sc.ResourceFlavors[i])
	}
	for i := range sc.Cohorts {
		if err := cache.AddOrUpdateCohort(&sc.Cohorts[i]); err != nil {
			t.Fatal(err)
		}
		queues.AddOrUpdateCohort(ctx, &sc.Cohorts[i])
	}
	for i := range sc.ClusterQueues {
		if err := cache.AddClusterQueue(ctx, &sc.ClusterQueues[i]); err != nil {
			t.Fatal(err)
		}
		if err := queues.AddClusterQueue(ctx, &sc.ClusterQueues[i]); err != nil {
			t.Fatal(err)
		}
	}
	for i := range sc.LocalQueues {
		if err := queues.AddLocalQueue(ctx, &sc.LocalQueues[i]); err != nil {
			t.Fatal(err)
		}
	}
	clock := testingclock.NewFakeClock(t0)
	opts := []Option{WithClock(t, clock), WithPreemptionExpectations(exp)}
	if sc.FairSharing {
		opts = append(opts, WithFairSharing(&config.FairSharing{PreemptionStrategies: []config.PreemptionStrategy{config.LessThanOrEqualToFinalShare, config.LessThanInitialShare}}))
	}
	s := New(queues, cache, cl, recorder, opts...)
	wg := sync.WaitGroup{}
	s.setAdmissionRoutineWrapper(routine.NewWrapper(func() { wg.Add(1) }, func() { wg.Done() }))

	created := t0
	get := func(key string) *kueue.Workload {
		var list kueue.WorkloadList
		if err := cl.List(ctx, &list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if list.Items[i].Namespace+"/"+list.Items[i].Name == key {
				return &list.Items[i]
			}
		}
		return nil
	}
	all := func() map[string]*kueue.Workload {
		var list kueue.WorkloadList
		if err := cl.List(ctx, &list); err != nil {
			t.Fatal(err)
		}
		m := map[string]*kueue.Workload{}
		for i := range list.Items {
			m[list.Items[i].Namespace+"/"+list.Items[i].Name] = &list.Items[i]
		}
		return m
	}
	for i := range sc.Admitted {
		created = created.Add(time.Second)
		wl := sc.Admitted[i].DeepCopy()
		adm := wl.Status.Admission.DeepCopy()
		wl.CreationTimestamp = metav1.NewTime(created)
		clock.SetTime(created)
		if err := cl.Create(ctx, wl); err != nil {
			t.Fatal(err)
		}
		workload.SetQuotaReservation(wl, adm, clock)
		workload.SyncAdmittedCondition(wl, clock.Now())
		if err := cl.Status().Update(ctx, wl); err != nil {
			t.Fatal(err)
		}
		cache.AddOrUpdateWorkload(log, wl)
	}
	clock.SetTime(created.Add(1000 * time.Second))
	var out []vectorExpect
	for si := range sc.Steps {
		st := &sc.Steps[si]
		for _, key := range st.Finish {
			wl := get(key)
			if wl == nil {
				continue
			}
			k := workload.Key(wl)
			if workload.HasQuotaReservation(wl) {
				queues.QueueAssociatedInadmissibleWorkloadsAfter(ctx, k, func() { _ = cache.DeleteWorkload(log, k) })
			} else {
				queues.QueueAssociatedInadmissibleWorkloadsAfter(ctx, k, func() {})
			}
			queues.DeleteAndForgetWorkload(log, k)
			if err := cl.Delete(ctx, wl); err != nil {
				t.Fatal(err)
			}
		}
		requeuer.ProcessRequeues(ctx)
		for i := range st.Submit {
			created = created.Add(time.Second)
			wl := st.Submit[i].DeepCopy()
			wl.CreationTimestamp = metav1.NewTime(created)
			if err := cl.Create(ctx, wl); err != nil {
				t.Fatal(err)
			}
			if err := queues.AddOrUpdateWorkload(log, wl); err != nil {
				t.Fatal(err)
			}
		}
		if clock.Now().Before(created.Add(time.Second)) {
			clock.SetTime(created.Add(time.Second))
		}
		e := vectorExpect{Cycles: []vectorCycle{}, Running: map[string]given{}, Pending: []string{}}
		idle := 0
		spins := 0
		for idle < 4 && len(queues.Dump()) > 0 {
			spins++
			if spins > 60 {
				return nil
			}
			before := all()
			s.schedule(ctx)
			wg.Wait()
			after := all()
			c := vectorCycle{Admitted: map[string]given{}, Preempted: map[string]string{}}
			for key, wl := range after {
				old := before[key]
				if workload.HasQuotaReservation(wl) && !workload.HasQuotaReservation(old) {
					c.Admitted[key] = givenOf(wl)
					queues.DeleteWorkload(log, workload.Key(wl))
				}
				if apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadEvicted) && workload.HasQuotaReservation(wl) {
					c.Preempted[key] = apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadPreempted).Reason
				}
			}
			clock.SetTime(clock.Now().Add(time.Second))
			for key := range c.Preempted {
				wl := after[key]
				exp.ObservedUID(log, types.NamespacedName{Name: wl.Name, Namespace: wl.Namespace}, wl.UID)
				workload.SetRequeuedCondition(wl, "Preempted", "x", true)
				workload.UnsetQuotaReservationWithCondition(wl, "Pending", "x", clock.Now())
				if err := cl.Status().Update(ctx, wl); err != nil {
					t.Fatal(err)
				}
				k := workload.Key(wl)
				queues.QueueAssociatedInadmissibleWorkloadsAfter(ctx, k, func() { _ = cache.DeleteWorkload(log, k) })
				fresh := get(key)
				if err := queues.AddOrUpdateWorkload(log, fresh); err != nil {
					t.Fatal(err)
				}
				queues.QueueAssociatedInadmissibleWorkloadsAfter(ctx, k, nil)
			}
			requeuer.ProcessRequeues(ctx)
			if len(c.Admitted)+len(c.Preempted) == 0 {
				idle++
			} else {
				idle = 0
				e.Cycles = append(e.Cycles, c)
			}
		}
		for key, wl := range all() {
			if workload.HasQuotaReservation(wl) {
				e.Running[key] = givenOf(wl)
			} else {
				e.Pending = append(e.Pending, key)
			}
		}
		out = append(out, e)
	}
	return out
}

func comparable(e []vectorExpect) any {
	b, _ := json.Marshal(e)
	var v any
	_ = json.Unmarshal(b, &v)
	for _, s := range v.([]any) {
		m := s.(map[string]any)
		p := m["pending"].([]any)
		set := map[string]bool{}
		for _, x := range p {
			set[fmt.Sprint(x)] = true
		}
		m["pending"] = set
	}
	return v
}

func TestMeasureScenarios(t *testing.T) {
	in, err := os.Open(os.Getenv("VECTORS_IN"))
	if err != nil {
		t.Skip()
	}
	out, _ := os.Create(os.Getenv("VECTORS_OUT"))
	w := bufio.NewWriter(out)
	r := bufio.NewReaderSize(in, 1<<20)
	n, skipped := 0, 0
	for {
		line, err := r.ReadBytes('\n')
		if len(line) == 0 && err != nil {
			break
		}
		var raw map[string]json.RawMessage
		if e := json.Unmarshal(line, &raw); e != nil {
			t.Fatal(e)
		}
		var a, b vectorScenario
		_ = json.Unmarshal(raw["scenario"], &a)
		_ = json.Unmarshal(raw["scenario"], &b)
		e1 := measureScenario(t, &a)
		e2 := measureScenario(t, &b)
		n++
		if e1 == nil || e2 == nil || !reflect.DeepEqual(comparable(e1), comparable(e2)) {
			skipped++
			continue
		}
		j, _ := json.Marshal(map[string]any{"scenario": raw["scenario"], "expect": e1})
		w.Write(j)
		w.WriteByte('\n')
		w.Flush()
	}
	w.Flush()
	t.Logf("ran %d skipped %d", n, skipped)
}
