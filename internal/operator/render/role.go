package render

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// role allows brokers what internal/metadata/kube does, and no more: watch the metadata, keep a
// Lease, say what they serve, make, change and delete Topics and move Partitions for Kafka's admin
// clients. Under adminApi: ReadOnly they may make Topics only: that of consumer groups, and those
// that the LogCluster lets clients make by using them. A broker can change the Leases of its own
// cluster only; making one cannot be bound to a name, as RBAC does not see names on create. The
// rule that names Leases follows the number of brokers, so a cluster that grows gets its Role
// before its new pods. What is added here the operator must be granted as well (see controllers).
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
