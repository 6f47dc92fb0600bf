"""The permissions of the default roles, as a table. Facts of Kubernetes 1.36 and Kueue 0.19, in our spelling.

A role is a line with its name, followed by its rules: verbs | API groups | resources | names, or verbs | url | paths.
The verbs `read`, `write` and `all` stand for what they say; `core` is the group without a name. The roles of the
controllers inside kube-controller-manager are not here: those controllers are ours and need none.
"""

VERBS = {
    "read": ("get", "list", "watch"),
    "write": ("create", "delete", "deletecollection", "patch", "update"),
    "all": ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
}

KUBERNETES = """
cluster-admin
  * | * | *
  * | url | *
system:aggregate-to-admin
  create | authorization.k8s.io | localsubjectaccessreviews
  all | rbac.authorization.k8s.io | rolebindings roles
system:aggregate-to-edit
  read | core | pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy
  impersonate | core | serviceaccounts
  write | core | pods pods/attach pods/exec pods/portforward pods/proxy
  create | core | pods/eviction
  write | core | configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets serviceaccounts services services/proxy
  create | core | serviceaccounts/token
  write | core events.k8s.io | events
  write | apps | daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale
  write | autoscaling | horizontalpodautoscalers
  write | batch | cronjobs jobs
  write | extensions | daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets replicasets/scale replicationcontrollers/scale
  write | policy | poddisruptionbudgets
  write | networking.k8s.io | ingresses networkpolicies
  all | coordination.k8s.io | leases
  write | resource.k8s.io | resourceclaims resourceclaimtemplates
system:aggregate-to-view
  read | core | configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status
  read | core | bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas resourcequotas/status
  read | core | namespaces
  read | core events.k8s.io | events
  read | discovery.k8s.io | endpointslices
  read | apps | controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status
  read | autoscaling | horizontalpodautoscalers horizontalpodautoscalers/status
  read | batch | cronjobs cronjobs/status jobs jobs/status
  read | extensions | daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status networkpolicies replicasets replicasets/scale replicasets/status replicationcontrollers/scale
  read | policy | poddisruptionbudgets poddisruptionbudgets/status
  read | networking.k8s.io | ingresses ingresses/status networkpolicies
  read | resource.k8s.io | resourceclaims resourceclaims/status resourceclaimtemplates
system:auth-delegator
  create | authentication.k8s.io | tokenreviews
  create | authorization.k8s.io | subjectaccessreviews
system:basic-user
  create | authorization.k8s.io | selfsubjectaccessreviews selfsubjectrulesreviews
  create | authentication.k8s.io | selfsubjectreviews
system:certificates.k8s.io:certificatesigningrequests:nodeclient
  create | certificates.k8s.io | certificatesigningrequests/nodeclient
system:certificates.k8s.io:certificatesigningrequests:selfnodeclient
  create | certificates.k8s.io | certificatesigningrequests/selfnodeclient
system:certificates.k8s.io:kube-apiserver-client-approver
  approve | certificates.k8s.io | signers | kubernetes.io/kube-apiserver-client
system:certificates.k8s.io:kube-apiserver-client-kubelet-approver
  approve | certificates.k8s.io | signers | kubernetes.io/kube-apiserver-client-kubelet
system:certificates.k8s.io:kubelet-serving-approver
  approve | certificates.k8s.io | signers | kubernetes.io/kubelet-serving
system:certificates.k8s.io:legacy-unknown-approver
  approve | certificates.k8s.io | signers | kubernetes.io/legacy-unknown
system:discovery
  get | url | /api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/
system:heapster
  read | core | events namespaces nodes pods
  read | extensions | deployments
system:kube-aggregator
  read | core | endpoints services
system:kube-controller-manager
  create patch update | core events.k8s.io | events
  create | coordination.k8s.io | leases
  get update | coordination.k8s.io | leases | kube-controller-manager
  create | core | secrets serviceaccounts
  delete | core | secrets
  get | core | configmaps namespaces secrets serviceaccounts
  update | core | secrets serviceaccounts
  create | authentication.k8s.io | tokenreviews
  create | authorization.k8s.io | subjectaccessreviews
  list watch | * | *
  create | core | serviceaccounts/token
system:kube-dns
  list watch | core | endpoints services
system:kube-scheduler
  create patch update | core events.k8s.io | events
  create | coordination.k8s.io | leases
  get list update watch | coordination.k8s.io | leases | kube-scheduler
  all | coordination.k8s.io | leasecandidates
  read | core | nodes
  delete get list watch | core | pods
  create | core | bindings pods/binding
  patch update | core | pods/status
  read | core | replicationcontrollers services
  read | apps extensions | replicasets
  read | apps | statefulsets
  read | policy | poddisruptionbudgets
  read | core | persistentvolumeclaims persistentvolumes
  create | authentication.k8s.io | tokenreviews
  create | authorization.k8s.io | subjectaccessreviews
  read | storage.k8s.io | csinodes
  read | storage.k8s.io | volumeattachments
  read | core | namespaces
  read | storage.k8s.io | csidrivers
  read | storage.k8s.io | csistoragecapacities
  read | resource.k8s.io | deviceclasses
  get list patch update watch | resource.k8s.io | resourceclaims
  get list patch update watch | resource.k8s.io | resourceclaims/status
  update | core | pods/finalizers
  read | resource.k8s.io | resourceslices
  create delete | resource.k8s.io | resourceclaims
  patch update | resource.k8s.io | resourceclaims/binding
system:kubelet-api-admin
  read | core | nodes
  proxy | core | nodes
  * | core | nodes/log nodes/metrics nodes/proxy nodes/stats
  * | core | nodes/configz nodes/healthz nodes/pods
system:monitoring
  get | url | /flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /statusz
  get | core | nodes/metrics
system:node
  create | authentication.k8s.io | tokenreviews
  create | authorization.k8s.io | localsubjectaccessreviews subjectaccessreviews
  read | core | services
  create get list watch | core | nodes
  patch update | core | nodes/status
  patch update | core | nodes
  create patch update | core events.k8s.io | events
  read | core | pods
  create delete | core | pods
  patch update | core | pods/status
  create | core | pods/eviction
  read | core | configmaps secrets
  get | core | persistentvolumeclaims persistentvolumes
  get | core | endpoints
  create get list watch | certificates.k8s.io | certificatesigningrequests
  create delete get patch update | coordination.k8s.io | leases
  get | storage.k8s.io | volumeattachments
  create | core | serviceaccounts/token
  get patch update | core | persistentvolumeclaims/status
  read | storage.k8s.io | csidrivers
  create delete get patch update | storage.k8s.io | csinodes
  read | node.k8s.io | runtimeclasses
  get | resource.k8s.io | resourceclaims
  deletecollection | resource.k8s.io | resourceslices
  get | core | serviceaccounts
system:node-bootstrapper
  create get list watch | certificates.k8s.io | certificatesigningrequests
system:node-problem-detector
  get | core | nodes
  patch | core | nodes/status
  create patch update | core events.k8s.io | events
system:node-proxier
  list watch | core | endpoints services
  read | core | nodes
  create patch update | core events.k8s.io | events
  list watch | networking.k8s.io | servicecidrs
  list watch | discovery.k8s.io | endpointslices
system:persistent-volume-provisioner
  create delete get list watch | core | persistentvolumes
  get list update watch | core | persistentvolumeclaims
  read | storage.k8s.io | storageclasses
  watch | core | events
  create patch update | core events.k8s.io | events
system:public-info-viewer
  get | url | /healthz /livez /readyz /version /version/
system:service-account-issuer-discovery
  get | url | /.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/
system:volume-scheduler
  get list patch update watch | core | persistentvolumes
  read | storage.k8s.io | storageclasses
  get list patch update watch | core | persistentvolumeclaims
"""

# role -> subjects: u: a user, g: a group, s: a service account of kube-system; none: the binding is empty
BINDINGS = {
    "cluster-admin": ("g:system:masters",),
    "system:monitoring": ("g:system:monitoring",),
    "system:discovery": ("g:system:authenticated",),
    "system:basic-user": ("g:system:authenticated",),
    "system:public-info-viewer": ("g:system:authenticated", "g:system:unauthenticated"),
    "system:node-proxier": ("u:system:kube-proxy",),
    "system:kube-controller-manager": ("u:system:kube-controller-manager",),
    "system:kube-dns": ("s:kube-dns",),
    "system:kube-scheduler": ("u:system:kube-scheduler",),
    "system:volume-scheduler": ("u:system:kube-scheduler",),
    "system:node": (),
    "system:service-account-issuer-discovery": ("g:system:serviceaccounts",),
}

# kind, group, plural, has a status, who views (a: batch admins, u: batch users, then admin, edit, view), who edits
KUEUE = (
    ("clusterqueue", "kueue.x-k8s.io", "clusterqueues", True, "a admin", "a"),
    ("cohort", "kueue.x-k8s.io", "cohorts", False, "a admin", "a"),
    ("resourceflavor", "kueue.x-k8s.io", "resourceflavors", False, "a admin", "a"),
    ("topology", "kueue.x-k8s.io", "topologies", False, "a admin", "a"),
    ("localqueue", "kueue.x-k8s.io", "localqueues", True, "a u view admin edit", "a"),
    ("workload", "kueue.x-k8s.io", "workloads", True, "a u view admin edit", "a"),
    ("job", "batch", "jobs", True, "a u view admin edit", "a u"),
    ("jobset", "jobset.x-k8s.io", "jobsets", True, "a u view admin edit", "a u"),
    ("leaderworkerset", "leaderworkerset.x-k8s.io", "leaderworkersets", True, "a u view admin edit", "a u"),
    ("jaxjob", "kubeflow.org", "jaxjobs", True, "a u view admin edit", "a u"),
    ("mpijob", "kubeflow.org", "mpijobs", True, "a u view admin edit", "a u"),
    ("paddlejob", "kubeflow.org", "paddlejobs", True, "a u view admin edit", "a u"),
    ("pytorchjob", "kubeflow.org", "pytorchjobs", True, "a u view admin edit", "a u"),
    ("tfjob", "kubeflow.org", "tfjobs", True, "a u view admin edit", "a u"),
    ("xgboostjob", "kubeflow.org", "xgboostjobs", True, "a u view admin edit", "a u"),
    ("trainjob", "trainer.kubeflow.org", "trainjobs", True, "a u view admin edit", "a u"),
    ("raycluster", "ray.io", "rayclusters", True, "a view admin edit", "a u"),
    ("rayjob", "ray.io", "rayjobs", True, "a u view admin edit", "a u"),
    ("rayservice", "ray.io", "rayservices", True, "a view admin edit", "a u"),
    ("sparkapplication", "sparkoperator.k8s.io", "sparkapplications", True, "a u view admin edit", "a u"),
)
KUEUE_PENDING = (
    ("cq", "clusterqueues/pendingworkloads", "a view admin edit"),
    ("lq", "localqueues/pendingworkloads", "a u view admin edit"),
)
