package render

import (
	"cmp"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// role grants brokers exactly the permissions that internal/metadata/kube needs. Brokers watch the
// metadata, renew their Leases and update the status of PartitionSets. For Kafka's admin clients
// they create, change and delete Topics, reassign partitions, and change settings of their
// LogCluster. With adminAPI ReadOnly they can only create Topics: __consumer_offsets, and topics
// that are created automatically (autoCreateTopics).
//
// A broker may patch only its own LogCluster. RBAC cannot restrict this permission to some fields,
// but the policy in config/admission/logclusters.yaml does.
//
// A broker may update only the Leases and PartitionSets of its own cluster. RBAC cannot restrict
// the creation of Leases to names, because a create request has no resource name. The rule that
// names the Leases depends on the number of brokers, so the Role must be applied before new pods
// are created. The operator itself must have every permission that this Role grants (see
// controllers/logcluster).
func role(cluster *v1alpha1.LogCluster, settings Settings) *rbacv1.Role {
	var leases []string
	for id := range settings.running(cluster) {
		leases = append(leases, v1alpha1.BrokerLeaseName(cluster.Name, id))
	}
	var sets []string
	for number := range cmp.Or(settings.PartitionSets, v1alpha1.PartitionSets) {
		sets = append(sets, v1alpha1.PartitionSetName(cluster.Name, number))
	}
	topicVerbs := []string{"create"}
	if cluster.Spec.AdminAPI != v1alpha1.AdminReadOnly {
		topicVerbs = append(topicVerbs, "delete", "patch")
	}
	heartwood, coordination := []string{v1alpha1.GroupVersion.Group},
		[]string{"coordination.k8s.io"}
	rules := []rbacv1.PolicyRule{
		{
			APIGroups: heartwood, Resources: []string{"logclusters", "topics", "partitionsets"},
			Verbs: []string{"get", "list", "watch"},
		},
		{APIGroups: heartwood, Resources: []string{"topics"}, Verbs: topicVerbs},
		{APIGroups: heartwood, Resources: []string{"partitionsets/status"}, ResourceNames: sets,
			Verbs: []string{"get", "update"}},
		{APIGroups: coordination, Resources: []string{"leases"},
			Verbs: []string{"get", "list", "watch", "create"}},
		{APIGroups: coordination, Resources: []string{"leases"}, ResourceNames: leases,
			Verbs: []string{"update"}},
	}
	if cluster.Spec.AdminAPI != v1alpha1.AdminReadOnly {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: heartwood,
			Resources: []string{"partitionsets"}, ResourceNames: sets, Verbs: []string{"update"}},
			rbacv1.PolicyRule{APIGroups: heartwood, Resources: []string{"logclusters"},
				ResourceNames: []string{cluster.Name}, Verbs: []string{"patch"}})
	}
	rules = append(rules, securityRules(cluster, settings)...)
	return &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"},
		ObjectMeta: metadata(cluster, BrokersName(cluster.Name)),
		Rules:      rules,
	}
}

// securityRules grants the permissions for authentication and authorization. Brokers read the
// LogUsers. For Kafka's admin clients they create LogUsers and change their ACLs and quotas, within
// the policy in config/admission/logusers.yaml. Brokers can read only the Secrets that are named
// here, and cannot create Secrets: by creating a Secret of type
// kubernetes.io/service-account-token, a broker could obtain the token of any ServiceAccount in the
// namespace. A request to list or watch needs the Secret's name as a field selector.
func securityRules(cluster *v1alpha1.LogCluster, settings Settings) []rbacv1.PolicyRule {
	heartwood := []string{v1alpha1.GroupVersion.Group}
	rules := []rbacv1.PolicyRule{{APIGroups: heartwood, Resources: []string{"logusers"},
		Verbs: []string{"get", "list", "watch"}}}
	writes := cluster.Spec.AdminAPI != v1alpha1.AdminReadOnly
	if writes {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: heartwood,
			Resources: []string{"logusers"}, Verbs: []string{"create", "patch"}})
	}
	if !cluster.Spec.Secured() {
		return rules
	}
	// The HTTP port checks the permissions of ServiceAccounts in this namespace only.
	rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{"authorization.k8s.io"},
		Resources: []string{"localsubjectaccessreviews"}, Verbs: []string{"create"}})
	authenticates := cluster.Spec.Listeners.Authenticate()
	names := []string{v1alpha1.BrokersTLSSecretName(cluster.Name)}
	if authenticates {
		for shard := range settings.ScramShards + 1 { // brokers also watch the next shard
			names = append(names, v1alpha1.ScramSecretName(cluster.Name, shard))
		}
		names = append(names, v1alpha1.ScramAdminSecretName(cluster.Name))
	}
	core := []string{""}
	rules = append(rules, rbacv1.PolicyRule{APIGroups: core, Resources: []string{"secrets"},
		ResourceNames: names, Verbs: []string{"get", "list", "watch"}})
	if authenticates && writes {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: core, Resources: []string{"secrets"},
			ResourceNames: []string{v1alpha1.ScramAdminSecretName(cluster.Name)},
			Verbs:         []string{"patch"}})
	}
	return rules
}
