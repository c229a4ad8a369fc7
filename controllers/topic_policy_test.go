package controllers

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	. "heartwood.dev/heartwood/test/kit/specs"
)

var _ = Describe("A broker with the Role of its LogCluster", func() {
	It("may change only Topics and create only Leases of its own LogCluster", func(t *testing.T) {
		f := newFixture(t)
		account := "system:serviceaccount:" + f.namespace + ":main-broker"
		f.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "topics"},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"topics"},
					Verbs: []string{"create", "patch", "delete"}},
				{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
					Verbs: []string{"create"}}}})
		f.create(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "topics"},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "topics"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind,
				Name: account}}})
		topic := func(name, cluster string) *v1alpha1.Topic {
			return &v1alpha1.Topic{ObjectMeta: metav1.ObjectMeta{Name: name,
				Namespace: f.namespace}, Spec: v1alpha1.TopicSpec{Cluster: cluster, Partitions: 1}}
		}
		f.create(topic("theirs", "other"))
		f.create(topic("ours", "main"))
		f.applyPolicy("topics.yaml")
		as := rest.CopyConfig(config)
		as.Impersonate.UserName = account
		broker, err := client.New(as, client.Options{Scheme: api.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		ctx := context.Background()
		foreign := MatchError(ContainSubstring("only Topics of its own LogCluster"))
		// A new policy takes effect in the API server only after a moment.
		Eventually(func() error {
			return broker.Create(ctx, topic("new", "other"), client.DryRunAll)
		}).Should(foreign)
		Expect(broker.Delete(ctx, topic("theirs", ""))).To(foreign)
		Expect(broker.Create(ctx, topic("new", "main"))).To(Succeed())
		annotated := topic("lossy", "main")
		annotated.Annotations = map[string]string{v1alpha1.AnnotationAcceptDataLoss: "1"}
		Expect(broker.Create(ctx, annotated)).
			To(MatchError(ContainSubstring("may not create a Topic with annotations")))

		patch := func(name string, change func(*v1alpha1.Topic)) error {
			before := get(Default, f, name, &v1alpha1.Topic{})
			after := before.DeepCopy()
			change(after)
			return broker.Patch(ctx, after, client.MergeFrom(before))
		}
		Expect(patch("ours", func(t *v1alpha1.Topic) { t.Spec.Partitions = 2 })).To(Succeed())
		Expect(patch("theirs", func(t *v1alpha1.Topic) { t.Spec.Partitions = 2 })).To(foreign)
		Expect(patch("ours", func(t *v1alpha1.Topic) {
			t.Annotations = map[string]string{v1alpha1.AnnotationAcceptDataLoss: "1"}
		})).To(MatchError(ContainSubstring("may not change the metadata of a Topic")))
		Expect(broker.Delete(ctx, topic("ours", ""))).To(Succeed())

		lease := func(name, cluster string) *coordinationv1.Lease {
			return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name,
				Namespace: f.namespace, Labels: map[string]string{v1alpha1.LabelCluster: cluster}}}
		}
		foreignLease := MatchError(ContainSubstring("only Leases of brokers of its own LogCluster"))
		Eventually(func() error { // separate from the policy of Topics
			return broker.Create(ctx, lease("other-broker-0", "other"), client.DryRunAll)
		}).Should(foreignLease)
		Expect(broker.Create(ctx, lease("main-broker-7", "main"))).To(Succeed())
		for _, other := range []*coordinationv1.Lease{lease("other-broker-0", "other"),
			lease("other-broker-0", "main"),
			lease("main-broker-broker-0", "main")} { // belongs to a LogCluster named main-broker
			Expect(broker.Create(ctx, other)).To(foreignLease)
		}
	})
})
