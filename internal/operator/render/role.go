package render

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// role grants brokers the permissions that internal/metadata/kube needs, and no others: to watch
// the metadata, to renew a Lease, to report what they serve, and for Kafka's admin clients to
// create, change and delete Topics and to reassign Partitions. With adminApi: ReadOnly they may
// only create Topics: that of consumer groups, and those that the LogCluster creates automatically.
//
// A broker can update the Leases of its own cluster only. Creating a Lease cannot be restricted to
// a name, as RBAC does not see names on create. The rule that names Leases depends on the number of
// brokers, so the Role is applied before new pods are created. The operator must have every
// permission that is added here (see controllers/logcluster).
func role(cluster *v1alpha1.LogCluster, settings Settings) *rbacv1.Role {
	var leases []string
	for id := range settings.running(cluster) {
		leases = append(leases, v1alpha1.BrokerLeaseName(cluster.Name, id))
	}
	topicVerbs := []string{"create"}
	if cluster.Spec.AdminAPI != v1alpha1.AdminReadOnly {
		topicVerbs = append(topicVerbs, "delete", "patch")
	}
	heartwood, coordination := []string{v1alpha1.GroupVersion.Group},
		[]string{"coordination.k8s.io"}
	rules := []rbacv1.PolicyRule{
		{
			APIGroups: heartwood, Resources: []string{"logclusters", "topics", "partitions"},
			Verbs: []string{"get", "list", "watch"},
		},
		{APIGroups: heartwood, Resources: []string{"topics"}, Verbs: topicVerbs},
		{APIGroups: heartwood, Resources: []string{"partitions/status"},
			Verbs: []string{"get", "update"}},
		{APIGroups: coordination, Resources: []string{"leases"},
			Verbs: []string{"get", "list", "watch", "create"}},
		{APIGroups: coordination, Resources: []string{"leases"}, ResourceNames: leases,
			Verbs: []string{"update"}},
	}
	if cluster.Spec.AdminAPI != v1alpha1.AdminReadOnly {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: heartwood,
			Resources: []string{"partitions"}, Verbs: []string{"patch"}})
	}
	return &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"},
		ObjectMeta: metadata(cluster, BrokersName(cluster.Name)),
		Rules:      rules,
	}
}
