package kube

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/test/kit/await"
)

// testPermissions checks that the permissions in doc.go suffice for a broker that changes neither
// topics nor assignments. Such changes need the permission to patch. The broker may change settings
// of its own LogCluster.
func testPermissions(f *fixture) {
	group := []string{v1alpha1.GroupVersion.Group}
	f.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "broker"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: group, Resources: []string{"logclusters", "topics", "partitionsets",
			"logusers"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: group, Resources: []string{"topics"}, Verbs: []string{"create", "delete"}},
		{APIGroups: group, Resources: []string{"logclusters"}, ResourceNames: []string{"demo"},
			Verbs: []string{"patch"}},
		{APIGroups: group, Resources: []string{"partitionsets/status"},
			Verbs: []string{"get", "update"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
			Verbs: []string{"get", "list", "watch", "create"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
			ResourceNames: []string{"demo-broker-0"}, Verbs: []string{"update"}},
	}})
	f.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "broker"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "broker"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName,
			Name: f.namespace}},
	})
	restricted := rest.CopyConfig(f.config)
	restricted.Impersonate.UserName = f.namespace
	f.topic("orders", 1)
	b := f.run(0, restricted)
	b.until("up", up(0))
	f.elect(orders(0), 0, 1, 1)
	image := b.until("leads", leads("orders", 0, 1))
	if err := b.ReportServing(f.t.Context(), 0,
		[]metadata.Served{{Topic: image.Topic("orders").ID, LeaderEpoch: 1}}); err != nil {
		f.t.Error(err)
	}
	if _, err := b.CreateTopic(f.t.Context(),
		metadata.NewTopic{Name: "created", Partitions: 1, Replicas: 1}); err != nil {
		f.t.Error(err)
	}
	if err := b.DeleteTopic(f.t.Context(), "created"); err != nil {
		f.t.Error(err)
	}
	if err := b.AlterCluster(f.t.Context(), metadata.ClusterChange{
		Properties: []metadata.PropertyChange{{Name: "group.max.size", Value: "7"}}}); err != nil {
		f.t.Error(err)
	}
	renewed := &coordinationv1.Lease{}
	f.get("demo-broker-0", renewed)
	first := renewed.Spec.RenewTime.Time
	await.Until(f.t, "lease renewed", func() bool {
		f.get("demo-broker-0", renewed)
		return renewed.Spec.RenewTime.After(first)
	})
}
