package main

import (
	"fmt"
	"strings"
)

const labels = `"labels":{"app.kubernetes.io/name":"bench","app.kubernetes.io/part-of":"load","tier":"test"}`

var (
	padding = strings.Repeat("all work and no play makes a dull benchmark; ", 56)
	env     = settings()
)

func settings() string {
	var env []string
	for i := range 12 {
		env = append(env, fmt.Sprintf(`{"name":"SETTING_%02d","value":"the value of setting number %d, long enough to count"}`, i, i))
	}
	return strings.Join(env, ",")
}

// object is one of about 3 KB: a config map with one long text, or a job with a template as people write it.
func object(name string) []byte {
	if *kind == "configmap" {
		return fmt.Appendf(nil, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q,%s},"data":{"one":"1","two":"2","text":%q}}`,
			name, labels, padding)
	}
	return fmt.Appendf(nil, `{"kind":"Job","apiVersion":"batch/v1","metadata":{"name":%q,%s,"annotations":{"note":%q}},`+
		`"spec":{"suspend":true,"parallelism":2,"completions":2,"backoffLimit":3,"template":{"metadata":{%s},"spec":{"restartPolicy":"Never",`+
		`"nodeSelector":{"node.kubernetes.io/instance-type":"g6.12xlarge"},`+
		`"tolerations":[{"key":"nvidia.com/gpu","operator":"Exists","effect":"NoSchedule"}],`+
		`"volumes":[{"name":"scratch","emptyDir":{}},{"name":"settings","configMap":{"name":"settings"}}],`+
		`"containers":[{"name":"main","image":"registry.example.com/train:1.2","command":["python","train.py","--epochs","10"],`+
		`"env":[%s],"resources":{"requests":{"cpu":"4","memory":"16Gi","nvidia.com/gpu":"1"},"limits":{"nvidia.com/gpu":"1"}},`+
		`"volumeMounts":[{"name":"scratch","mountPath":"/scratch"},{"name":"settings","mountPath":"/etc/settings"}]}]}}}}`,
		name, labels, padding[:900], labels, env)
}
