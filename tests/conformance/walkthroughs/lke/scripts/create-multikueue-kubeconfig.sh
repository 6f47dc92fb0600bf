#!/bin/bash
# Makes an account for MultiKueue on the current context's cluster and writes a kubeconfig with its token to the file named.
set -euo pipefail
out=$1
kubectl apply -f - <<EOF
apiVersion: v1
kind: ServiceAccount
metadata:
  name: multikueue-sa
  namespace: kueue-system
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: multikueue-sa-role
rules:
$(rule() { printf -- '- apiGroups: ["%s"]\n  resources: [%s]\n  verbs: [%s]\n' "$1" "$2" "$3"; }
  all="create, delete, get, list, watch"
  rule batch jobs "$all, patch, update"; rule batch jobs/status get
  rule "" pods "$all"; rule "" "pods/status, pods/log" get
  rule apps statefulsets "$all"; rule apps statefulsets/status get
  rule leaderworkerset.x-k8s.io leaderworkersets "$all"; rule leaderworkerset.x-k8s.io leaderworkersets/status get
  rule jobset.x-k8s.io jobsets "$all"; rule jobset.x-k8s.io jobsets/status get
  rule kueue.x-k8s.io workloads "$all, patch, update"; rule kueue.x-k8s.io workloads/status "get, patch, update"
  rule kueue.x-k8s.io "clusterqueues, localqueues" "get, list, watch"
  kinds="tfjobs paddlejobs pytorchjobs xgboostjobs jaxjobs mpijobs"
  rule kubeflow.org "${kinds// /, }" "$all"; rule kubeflow.org "$(printf '%s/status, ' $kinds | sed 's/, $//')" get
  rule trainer.kubeflow.org trainjobs "$all"; rule trainer.kubeflow.org trainjobs/status get
  rule ray.io "rayjobs, rayclusters, rayservices" "$all, patch, update"
  rule ray.io "rayjobs/status, rayclusters/status, rayservices/status" get
  rule workload.codeflare.dev appwrappers "$all"; rule workload.codeflare.dev appwrappers/status get)
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: multikueue-sa-crb
subjects:
- kind: ServiceAccount
  name: multikueue-sa
  namespace: kueue-system
roleRef:
  kind: ClusterRole
  name: multikueue-sa-role
  apiGroup: rbac.authorization.k8s.io
---
apiVersion: v1
kind: Secret
type: kubernetes.io/service-account-token
metadata:
  name: multikueue-sa
  namespace: kueue-system
  annotations:
    kubernetes.io/service-account.name: multikueue-sa
EOF
for _ in $(seq 50); do
  token=$(kubectl get secret -n kueue-system multikueue-sa -o jsonpath='{.data.token}' | base64 -d)
  [ -n "$token" ] && break
  sleep 0.1
done
authority=$(kubectl get secret -n kueue-system multikueue-sa -o jsonpath='{.data.ca\.crt}')
context=$(kubectl config current-context)
cluster=$(kubectl config view -o jsonpath="{.contexts[?(@.name == \"${context}\")].context.cluster}")
server=$(kubectl config view -o jsonpath="{.clusters[?(@.name == \"${cluster}\")].cluster.server}")
cat > "$out" <<EOF
apiVersion: v1
kind: Config
clusters:
- name: ${cluster}
  cluster:
    certificate-authority-data: ${authority}
    server: ${server}
contexts:
- name: ${context}
  context:
    cluster: ${cluster}
    user: multikueue-sa
current-context: ${context}
users:
- name: multikueue-sa
  user:
    token: ${token}
EOF
