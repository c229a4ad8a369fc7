package controllers

import (
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	. "heartwood.dev/heartwood/test/kit/specs"
)

// kstatusCommand returns the path of the built program hack/tools/kstatus. The program has its own
// module, because the library that it uses needs other versions of the Kubernetes modules.
var kstatusCommand = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "tool", "-C", "../hack/tools/kstatus", "-n", "kstatus").Output()
	return strings.TrimSpace(string(out)), err
})

// kstatus returns the status that kstatus computes for a stored object.
func kstatus[T client.Object](g Gomega, f *fixture, name string, object T) string {
	command, err := kstatusCommand()
	g.Expect(err).NotTo(HaveOccurred())
	get(g, f, name, object)
	kind, err := api.GroupVersionKindFor(object)
	g.Expect(err).NotTo(HaveOccurred())
	object.GetObjectKind().SetGroupVersionKind(kind)
	content, err := json.Marshal(object)
	g.Expect(err).NotTo(HaveOccurred())
	run := exec.Command(command)
	run.Stdin = strings.NewReader(string(content))
	out, err := run.Output()
	g.Expect(err).NotTo(HaveOccurred())
	fields := strings.Split(string(out), "\t")
	g.Expect(fields).To(HaveLen(4), string(out))
	return fields[2]
}

// expectKstatus waits until kstatus computes the given status for an object.
func expectKstatus[T client.Object](f *fixture, name string, object T, want string) {
	Eventually(func(g Gomega) {
		g.Expect(kstatus(g, f, name, object)).To(Equal(want))
	}).Should(Succeed())
}

var _ = Describe("For tools that read the status by kstatus", func() {
	var f *fixture
	BeforeEach(func(t *testing.T) { f = newFixture(t) })

	It("a Topic is InProgress until its partitions serve, and Failed when a person must act",
		func(t *testing.T) {
			f.cluster(1)
			f.renew(0, "a", 1, "disk", validThroughout)
			f.topic("orders", nil)
			expectKstatus(f, "orders", &v1alpha1.Topic{}, "InProgress")
			f.serve("orders/0")
			expectKstatus(f, "orders", &v1alpha1.Topic{}, "Current")

			f.topic("large", func(spec *v1alpha1.TopicSpec) { spec.Replicas = new(int32(3)) })
			expectKstatus(f, "large", &v1alpha1.Topic{}, "Failed")
			expectReason(f.topicConditions("large"), v1alpha1.ConditionStalled,
				v1alpha1.ReasonNotEnoughBrokers)
			Expect(api.Delete(context.Background(), get(Default, f, "large", &v1alpha1.Topic{}))).
				To(Succeed())
		})

	It("a LogCluster is InProgress until its brokers are up", func(t *testing.T) {
		f.cluster(1)
		expectKstatus(f, "main", &v1alpha1.LogCluster{}, "InProgress")
		expectReason(f.clusterConditions(), v1alpha1.ConditionReconciling,
			v1alpha1.ReasonBrokersNotReady)
	})

	It("a resource that the operator has not seen is InProgress", func(t *testing.T) {
		unseen := &v1alpha1.Topic{Spec: v1alpha1.TopicSpec{Cluster: "main", Partitions: 1}}
		unseen.Name, unseen.Namespace = "unseen", f.namespace
		f.create(unseen)
		Expect(unseen.Status.ObservedGeneration).To(Equal(int64(-1)))
	})
})
