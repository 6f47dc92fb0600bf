// A load generator for Kubernetes API servers: one verb at a time over many TLS connections, every latency kept.
// Compiled, and below net/http, so that what is measured is the server and not the client beside it. Standard library
// only. Prints "begun" when its clock starts and one JSON line at the end; the object it writes is in objects.go, the connection in wire.go.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

var (
	base    = flag.String("url", "", "server, with the cluster's path")
	token   = flag.String("token", "", "bearer token")
	ca      = flag.String("ca", "", "file of the certificate authority")
	op      = flag.String("op", "get", "create, get, patch, list, delete or watch")
	kind    = flag.String("kind", "configmap", "configmap or job")
	count   = flag.Int("n", 1000, "requests (for watch: writes)")
	objects = flag.Int("objects", 0, "how many objects get and patch go round; 0: as many as requests")
	workers = flag.Int("c", 64, "connections")
	watched = flag.Int("watchers", 200, "watchers; where connections are fewer they share them, by HTTP/2")
	ns      = flag.String("namespace", "bench", "namespace")
)

func main() {
	flag.Parse()
	if *objects == 0 {
		*objects = *count
	}
	at := target()
	var line map[string]any
	if *op == "watch" {
		line = fanOut(at)
	} else {
		line = run(at)
	}
	out, _ := json.Marshal(line)
	fmt.Println(string(out))
}

func collection() string {
	if *kind == "job" {
		return "/apis/batch/v1/namespaces/" + *ns + "/jobs"
	}
	return "/api/v1/namespaces/" + *ns + "/configmaps"
}

// run sends count requests over the connections, which are open before the clock starts, and keeps each latency.
func run(at server) map[string]any {
	conns := make([]*conn, *workers)
	var opened sync.WaitGroup
	for w := range conns {
		opened.Add(1)
		go func() {
			defer opened.Done()
			conns[w] = at.open()
			conns[w].do("GET", "/version", nil, "")
		}()
	}
	opened.Wait()
	var next, failed atomic.Int64
	latencies := make([][]time.Duration, *workers)
	var wg sync.WaitGroup
	start := begin()
	for w := range conns {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				i := int(next.Add(1)) - 1
				if i >= *count {
					return
				}
				began := time.Now()
				if !send(conns[w], i) {
					failed.Add(1)
				}
				latencies[w] = append(latencies[w], time.Since(began))
			}
		}()
	}
	wg.Wait()
	elapsed := time.Since(start)
	var all []time.Duration
	for _, each := range latencies {
		all = append(all, each...)
	}
	return report(all, elapsed, failed.Load(), len(all))
}

// begin starts the clock, and says so: whoever measures the server leaves the handshakes out.
func begin() time.Time {
	fmt.Println("begun")
	usage = used()
	return time.Now()
}

var usage time.Duration // of the processor, by this program, until the clock started

func used() time.Duration {
	var all syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &all))
	return time.Duration(all.Utime.Nano() + all.Stime.Nano())
}

func send(c *conn, i int) bool {
	item := fmt.Sprintf("%s/b-%06d", collection(), i%*objects)
	switch *op {
	case "create":
		return c.do("POST", collection(), object(fmt.Sprintf("b-%06d", i)), "application/json")
	case "get":
		return c.do("GET", item, nil, "")
	case "patch":
		return c.do("PATCH", item, step(time.Now().UnixNano()), "application/merge-patch+json")
	case "list":
		return c.do("GET", collection(), nil, "")
	case "delete": // in the background: jobs would otherwise wait for a garbage collector
		return c.do("DELETE", item+"?propagationPolicy=Background", nil, "")
	}
	panic("unknown op " + *op)
}

func step(i int64) []byte {
	return fmt.Appendf(nil, `{"metadata":{"labels":{"step":"s%d"}}}`, i)
}

// fanOut opens the watchers, then writes one object at a time and waits until every watcher has seen it.
func fanOut(at server) map[string]any {
	// One write is under way at a time: the last watcher to see it wakes the writer, the others only count.
	var seen atomic.Int64
	all := make(chan struct{}, 1)
	saw := func(line []byte) {
		if bytes.HasPrefix(line, modified) && seen.Add(1)%int64(*watched) == 0 {
			all <- struct{}{}
		}
	}
	var ready sync.WaitGroup
	ready.Add(*watched)
	for w := range min(*workers, *watched) {
		if *workers >= *watched {
			go watch(at.open(), ready.Done, saw)
		} else {
			share := (*watched + *workers - 1 - w) / *workers
			go at.streams(watchPath(), share, ready.Done, saw)
		}
	}
	ready.Wait()
	time.Sleep(300 * time.Millisecond)
	writer := at.open()
	var latencies []time.Duration
	var failed int64
	start := begin()
	for i := range *count {
		began := time.Now()
		if !writer.do("PATCH", collection()+"/b-000000", step(began.UnixNano()+int64(i)), "application/merge-patch+json") {
			failed++
			continue
		}
		<-all
		latencies = append(latencies, time.Since(began))
	}
	return report(latencies, time.Since(start), failed, *count**watched)
}

var modified = []byte(`{"type":"MODIFIED"`)

func watchPath() string {
	return collection() + "?watch=true&fieldSelector=metadata.name%3Db-000000" +
		"&resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
}

func watch(c *conn, answered func(), saw func([]byte)) {
	c.send("GET", watchPath(), nil, "")
	status, body := c.head()
	if status != 200 {
		fmt.Fprintln(os.Stderr, "watch was answered", status)
		os.Exit(1)
	}
	answered()
	lines := bufio.NewReaderSize(body, 1<<16)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return
		}
		saw(line)
	}
}

func report(latencies []time.Duration, elapsed time.Duration, failed int64, events int) map[string]any {
	own := float64((used() - usage).Microseconds()) / float64(events)
	sort.Slice(latencies, func(i, j int) bool { return latencies[i] < latencies[j] })
	at := func(q float64) float64 {
		if len(latencies) == 0 {
			return 0
		}
		return float64(latencies[int(q*float64(len(latencies)-1))].Microseconds()) / 1000
	}
	return map[string]any{
		"op": *op, "kind": *kind, "rate": float64(events) / elapsed.Seconds(), "seconds": elapsed.Seconds(),
		"p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "failed": failed, "client_us": own,
	}
}
