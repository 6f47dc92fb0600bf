// A load generator for Kubernetes API servers: 64 TLS connections, one verb at a time, latencies kept.
// Compiled, so that what is measured is the server. Standard library only. Prints one JSON line per run.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var (
	base    = flag.String("url", "", "server, with the cluster's path")
	token   = flag.String("token", "", "bearer token")
	ca      = flag.String("ca", "", "file of the certificate authority")
	op      = flag.String("op", "get", "create, get, patch, list, delete or watch")
	kind    = flag.String("kind", "configmap", "configmap or job")
	count   = flag.Int("n", 1000, "requests (for watch: writes)")
	workers = flag.Int("c", 64, "connections (for watch: watchers)")
	ns      = flag.String("namespace", "bench", "namespace")
)

func main() {
	flag.Parse()
	client := newClient()
	var line map[string]any
	if *op == "watch" {
		line = fanOut(client)
	} else {
		line = run(client)
	}
	out, _ := json.Marshal(line)
	fmt.Println(string(out))
}

func newClient() *http.Client {
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(*ca)
	if err != nil {
		panic(err)
	}
	pool.AppendCertsFromPEM(pem)
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: pool},
		MaxIdleConnsPerHost: *workers + 8,
		MaxConnsPerHost:     *workers + 8,
		DisableCompression:  true,
	}}
}

func collection() string {
	if *kind == "job" {
		return "/apis/batch/v1/namespaces/" + *ns + "/jobs"
	}
	return "/api/v1/namespaces/" + *ns + "/configmaps"
}

// run sends count requests over the connections and keeps each latency.
func run(client *http.Client) map[string]any {
	var next atomic.Int64
	var failed atomic.Int64
	latencies := make([][]time.Duration, *workers)
	var wg sync.WaitGroup
	start := time.Now()
	for w := 0; w < *workers; w++ {
		wg.Add(1)
		go func(w int) {
			defer wg.Done()
			for {
				i := int(next.Add(1)) - 1
				if i >= *count {
					return
				}
				began := time.Now()
				if !send(client, i) {
					failed.Add(1)
				}
				latencies[w] = append(latencies[w], time.Since(began))
			}
		}(w)
	}
	wg.Wait()
	elapsed := time.Since(start)
	var all []time.Duration
	for _, each := range latencies {
		all = append(all, each...)
	}
	return report(all, elapsed, failed.Load(), len(all))
}

func send(client *http.Client, i int) bool {
	name := fmt.Sprintf("b-%06d", i)
	switch *op {
	case "create":
		return do(client, "POST", collection(), body(name), "application/json")
	case "get":
		return do(client, "GET", collection()+"/"+name, nil, "")
	case "patch":
		patch := []byte(fmt.Sprintf(`{"metadata":{"labels":{"step":"s%d"}}}`, time.Now().UnixNano()))
		return do(client, "PATCH", collection()+"/"+name, patch, "application/merge-patch+json")
	case "list":
		return do(client, "GET", collection(), nil, "")
	case "delete":
		return do(client, "DELETE", collection()+"/"+name, nil, "")
	}
	panic("unknown op " + *op)
}

func do(client *http.Client, method, path string, data []byte, media string) bool {
	request, _ := http.NewRequest(method, *base+path, bytes.NewReader(data))
	request.Header.Set("Authorization", "Bearer "+*token)
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "bench/1")
	if media != "" {
		request.Header.Set("Content-Type", media)
	}
	response, err := client.Do(request)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return false
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		text, _ := io.ReadAll(response.Body)
		fmt.Fprintln(os.Stderr, method, path, response.StatusCode, string(text[:min(len(text), 300)]))
		return false
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err == nil
}

// fanOut opens the watchers, then writes one object at a time and waits until every watcher has seen it.
func fanOut(client *http.Client) map[string]any {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	seen := make(chan struct{}, 1<<20)
	var ready sync.WaitGroup
	for w := 0; w < *workers; w++ {
		ready.Add(1)
		go watch(ctx, client, &ready, seen)
	}
	ready.Wait()
	time.Sleep(300 * time.Millisecond)
	var latencies []time.Duration
	start := time.Now()
	var failed int64
	for i := 0; i < *count; i++ {
		began := time.Now()
		patch := []byte(fmt.Sprintf(`{"metadata":{"labels":{"step":"s%d"}}}`, i))
		if !do(client, "PATCH", collection()+"/b-000000", patch, "application/merge-patch+json") {
			failed++
			continue
		}
		for w := 0; w < *workers; w++ {
			<-seen
		}
		latencies = append(latencies, time.Since(began))
	}
	return report(latencies, time.Since(start), failed, *count**workers)
}

func watch(ctx context.Context, client *http.Client, ready *sync.WaitGroup, seen chan struct{}) {
	path := collection() + "?watch=true&fieldSelector=metadata.name%3Db-000000&resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
	request, _ := http.NewRequestWithContext(ctx, "GET", *base+path, nil)
	request.Header.Set("Authorization", "Bearer "+*token)
	response, err := client.Do(request)
	if err != nil {
		panic(err)
	}
	ready.Done()
	reader := bufio.NewReaderSize(response.Body, 1<<16)
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return
		}
		if strings.HasPrefix(line, `{"type":"MODIFIED"`) {
			seen <- struct{}{}
		}
	}
}

func report(latencies []time.Duration, elapsed time.Duration, failed int64, events int) map[string]any {
	sort.Slice(latencies, func(i, j int) bool { return latencies[i] < latencies[j] })
	at := func(q float64) float64 {
		if len(latencies) == 0 {
			return 0
		}
		return float64(latencies[int(q*float64(len(latencies)-1))].Microseconds()) / 1000
	}
	return map[string]any{
		"op": *op, "kind": *kind, "rate": float64(events) / elapsed.Seconds(), "seconds": elapsed.Seconds(),
		"p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "failed": failed,
	}
}

var padding = strings.Repeat("all work and no play makes a dull benchmark; ", 56)

func body(name string) []byte {
	labels := `"labels":{"app.kubernetes.io/name":"bench","app.kubernetes.io/part-of":"load","tier":"test"}`
	if *kind == "configmap" {
		return []byte(fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q,%s},"data":{"one":"1","two":"2","text":%q}}`,
			name, labels, padding))
	}
	var env []string
	for i := 0; i < 12; i++ {
		env = append(env, fmt.Sprintf(`{"name":"SETTING_%02d","value":"the value of setting number %d, long enough to count"}`, i, i))
	}
	return []byte(fmt.Sprintf(`{"kind":"Job","apiVersion":"batch/v1","metadata":{"name":%q,%s,"annotations":{"note":%q}},`+
		`"spec":{"suspend":true,"parallelism":2,"completions":2,"backoffLimit":3,"template":{"metadata":{%s},"spec":{"restartPolicy":"Never",`+
		`"nodeSelector":{"node.kubernetes.io/instance-type":"g6.12xlarge"},`+
		`"tolerations":[{"key":"nvidia.com/gpu","operator":"Exists","effect":"NoSchedule"}],`+
		`"volumes":[{"name":"scratch","emptyDir":{}},{"name":"settings","configMap":{"name":"settings"}}],`+
		`"containers":[{"name":"main","image":"registry.example.com/train:1.2","command":["python","train.py","--epochs","10"],`+
		`"env":[%s],"resources":{"requests":{"cpu":"4","memory":"16Gi","nvidia.com/gpu":"1"},"limits":{"nvidia.com/gpu":"1"}},`+
		`"volumeMounts":[{"name":"scratch","mountPath":"/scratch"},{"name":"settings","mountPath":"/etc/settings"}]}]}}}}`,
		name, labels, padding[:900], labels, strings.Join(env, ",")))
}
