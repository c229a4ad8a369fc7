package controllers

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/lease"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/placement"
	"heartwood.dev/heartwood/test/kit/envtest"
	. "heartwood.dev/heartwood/test/kit/specs"
)

// fixture contains the namespace of one spec. Its methods act as brokers, leaders and users.
type fixture struct {
	t         *testing.T
	namespace string
}

func newFixture(t *testing.T) *fixture {
	namespace, err := envtest.Namespace(context.Background(), config)
	Expect(err).NotTo(HaveOccurred())
	// Without this deletion, the operator would continue to reconcile the LogClusters of earlier
	// specs, for example a rolling update whose brokers no longer respond. Later specs would wait for
	// it.
	Cleanup(t, func() {
		if t.Failed() {
			t.Logf("log of the controllers about %s:\n%s", namespace, record.about(namespace))
		}
		Expect(api.DeleteAllOf(context.Background(), &v1alpha1.LogCluster{},
			client.InNamespace(namespace))).To(Succeed())
	})
	f := &fixture{t, namespace}
	f.connectable(true)
	return f
}

func (f *fixture) create(object client.Object) {
	object.SetNamespace(f.namespace)
	Expect(api.Create(context.Background(), object)).To(Succeed())
}

// cluster creates a LogCluster named main.
func (f *fixture) cluster(brokers int32) *v1alpha1.LogCluster {
	cluster := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main"},
		Spec: v1alpha1.LogClusterSpec{Brokers: brokers}}
	f.create(cluster)
	return cluster
}

// connectable creates or changes the EndpointSlice of LogCluster main's bootstrap Service.
// Kubernetes does the same when a pod becomes ready or is no longer ready.
func (f *fixture) connectable(ready bool) {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace,
		Name: render.BootstrapServiceName("main")}}
	_, err := controllerutil.CreateOrUpdate(context.Background(), api, slice, func() error {
		slice.Labels = map[string]string{
			discoveryv1.LabelServiceName: render.BootstrapServiceName("main")}
		slice.AddressType = discoveryv1.AddressTypeIPv4
		slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready}}}
		return nil
	})
	Expect(err).NotTo(HaveOccurred())
}

// topic creates a Topic of cluster main. If change is not nil, it sets fields of the Topic's spec
// first.
func (f *fixture) topic(name string, change func(*v1alpha1.TopicSpec)) *v1alpha1.Topic {
	topic := &v1alpha1.Topic{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.TopicSpec{Cluster: "main"}}
	if change != nil {
		change(&topic.Spec)
	}
	f.create(topic)
	return topic
}

// column returns a resource's value in a column of the output of kubectl get.
func (f *fixture) column(g Gomega, resource, name, column string) any {
	mapper, err := rest.HTTPClientFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	raw := rest.CopyConfig(config)
	raw.GroupVersion, raw.NegotiatedSerializer = &v1alpha1.GroupVersion, scheme.Codecs
	raw.APIPath = "/apis"
	reader, err := rest.RESTClientForConfigAndClient(raw, mapper)
	g.Expect(err).NotTo(HaveOccurred())
	text, err := reader.Get().Namespace(f.namespace).Resource(resource).Name(name).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
		DoRaw(context.Background())
	g.Expect(err).NotTo(HaveOccurred())
	table := &metav1.Table{}
	g.Expect(json.Unmarshal(text, table)).To(Succeed())
	index := slices.IndexFunc(table.ColumnDefinitions,
		func(defined metav1.TableColumnDefinition) bool { return defined.Name == column })
	g.Expect(index).To(BeNumerically(">=", 0), column)
	g.Expect(table.Rows).To(HaveLen(1))
	return table.Rows[0].Cells[index]
}

// get reads an object from the API server.
func get[T client.Object](g Gomega, f *fixture, name string, object T) T {
	key := client.ObjectKey{Namespace: f.namespace, Name: name}
	g.Expect(api.Get(context.Background(), key, object)).To(Succeed())
	return object
}

// change reads an object, changes it with how, and updates it. It retries after conflicts with
// writes of the operator.
func change[T client.Object](f *fixture, name string, object T, how func(T)) {
	f.write(name, object, func() error {
		how(object)
		return api.Update(context.Background(), object)
	})
}

// changeStatus reads an object, changes it with how, and updates its status. It retries after
// conflicts with writes of the operator.
func changeStatus[T client.Object](f *fixture, name string, object T, how func(T)) {
	f.write(name, object, func() error {
		how(object)
		return api.Status().Update(context.Background(), object)
	})
}

// write reads an object and calls update. It repeats both until update has no conflict with another
// writer.
func (f *fixture) write(name string, object client.Object, update func() error) {
	Eventually(func() error {
		err := api.Get(context.Background(),
			client.ObjectKey{Namespace: f.namespace, Name: name}, object)
		if err == nil {
			err = update()
		}
		if err != nil && !apierrors.IsConflict(err) {
			return StopTrying("failed to change " + name).Wrap(err)
		}
		return err
	}).Should(Succeed())
}

// parse returns the key of a partition from its text, such as "orders/0".
func parse(name string) partitionset.Key {
	key, err := partitionset.ParseKey(name)
	Expect(err).NotTo(HaveOccurred())
	return key
}

// setOf returns the PartitionSet of a partition of cluster main, and its content.
func (f *fixture) setOf(g Gomega, key partitionset.Key) (*v1alpha1.PartitionSet,
	*partitionset.Set) {
	name := v1alpha1.PartitionSetName("main", partitionset.Number(key, v1alpha1.PartitionSets))
	object := get(g, f, name, &v1alpha1.PartitionSet{})
	set, faults := partitionset.Decode(object, nil)
	g.Expect(faults).To(BeEmpty())
	return object, set
}

// entry returns the entry of a partition of cluster main. The partition's name is like "orders/0".
func (f *fixture) entry(g Gomega, name string) partitionset.Entry {
	key := parse(name)
	_, set := f.setOf(g, key)
	entry, _ := set.Get(key)
	return entry
}

// state returns the state of a partition. The state must exist.
func (f *fixture) state(g Gomega, name string) partitionset.State {
	entry := f.entry(g, name)
	g.Expect(entry.State).NotTo(BeNil())
	return *entry.State
}

// replicas returns the assigned replicas of a partition. The assignment must exist.
func (f *fixture) replicas(g Gomega, name string) []int32 {
	entry := f.entry(g, name)
	g.Expect(entry.Assignment).NotTo(BeNil())
	return entry.Assignment.Replicas
}

// entries returns the entries of all PartitionSets of the namespace, by partition.
func (f *fixture) entries(g Gomega) map[string]partitionset.Entry {
	list := &v1alpha1.PartitionSetList{}
	g.Expect(api.List(context.Background(), list, client.InNamespace(f.namespace))).To(Succeed())
	all := map[string]partitionset.Entry{}
	for i := range list.Items {
		set, faults := partitionset.Decode(&list.Items[i], nil)
		g.Expect(faults).To(BeEmpty())
		for key, entry := range set.All() {
			all[key.String()] = entry
		}
	}
	return all
}

// assignments returns the assignments in all PartitionSets of the namespace.
func (f *fixture) assignments(g Gomega) map[string]partitionset.Assignment {
	all := map[string]partitionset.Assignment{}
	for name, entry := range f.entries(g) {
		if entry.Assignment != nil {
			all[name] = *entry.Assignment
		}
	}
	return all
}

// putState changes a partition's state as its leader would. It calls the function change again
// after a conflict.
func (f *fixture) putState(name string, change func(Gomega, *partitionset.State)) {
	Eventually(func(g Gomega) {
		key := parse(name)
		object, set := f.setOf(g, key)
		entry, _ := set.Get(key)
		g.Expect(entry.State).NotTo(BeNil())
		state := *entry.State
		change(g, &state)
		set.PutState(key, state)
		set.EncodeStatus(object)
		g.Expect(api.Status().Update(context.Background(), object)).To(Succeed())
	}).Should(Succeed())
}

// serve plays the partition's leader: it sets Serving in the partition's state.
func (f *fixture) serve(name string) {
	f.putState(name, func(g Gomega, state *partitionset.State) {
		g.Expect(state.Leader).NotTo(Equal(placement.NoLeader))
		state.Serving = true
	})
}

// expectProblem waits until a Topic has a problem with the given reason and a message that contains
// all given substrings.
func (f *fixture) expectProblem(topic, reason string, message ...string) {
	Eventually(func(g Gomega) {
		problems := get(g, f, topic, &v1alpha1.Topic{}).Status.Problems
		index := slices.IndexFunc(problems,
			func(p v1alpha1.PartitionProblem) bool { return p.Reason == reason })
		g.Expect(index).To(BeNumerically(">=", 0), "%+v", problems)
		for _, substring := range message {
			g.Expect(problems[index].Message).To(ContainSubstring(substring))
		}
	}).Should(Succeed())
}

// expectReason waits until the condition of type kind has the given reason and a message that
// contains all given substrings.
func expectReason(conditions func(Gomega) []metav1.Condition, kind, reason string,
	message ...string) {
	Eventually(func(g Gomega) {
		condition := meta.FindStatusCondition(conditions(g), kind)
		g.Expect(condition).NotTo(BeNil())
		g.Expect(condition.Reason).To(Equal(reason), condition.Message)
		for _, substring := range message {
			g.Expect(condition.Message).To(ContainSubstring(substring))
		}
	}).Should(Succeed())
}

func (f *fixture) topicConditions(name string) func(Gomega) []metav1.Condition {
	return func(g Gomega) []metav1.Condition {
		return get(g, f, name,
			&v1alpha1.Topic{}).Status.Conditions
	}
}

func (f *fixture) clusterConditions() func(Gomega) []metav1.Condition {
	return func(g Gomega) []metav1.Condition {
		return get(g, f, "main",
			&v1alpha1.LogCluster{}).Status.Conditions
	}
}

// expectObserved waits until the operator has applied the latest spec of LogCluster main and has
// decided on a rolling update with this spec. Until then, the operator can handle events of other
// objects with an earlier spec, because it watches each kind separately.
func (f *fixture) expectObserved() {
	Eventually(func(g Gomega) {
		cluster := get(g, f, "main", &v1alpha1.LogCluster{})
		g.Expect(cluster.Status.ObservedGeneration).To(Equal(cluster.Generation))
		rollingOut := meta.FindStatusCondition(cluster.Status.Conditions,
			v1alpha1.ConditionRollingOut)
		g.Expect(rollingOut).NotTo(BeNil())
		g.Expect(rollingOut.ObservedGeneration).To(Equal(cluster.Generation))
	}).Should(Succeed())
}

// validThroughout is the duration of Leases that must not expire during a spec.
const validThroughout = time.Hour

// renew acts as a broker: it renews the broker's Lease for a duration, with a broker epoch and a
// disk. With an empty holder, it acts as a broker that has stopped gracefully.
func (f *fixture) renew(broker int32, holder string, epoch int32, disk string,
	duration time.Duration) {
	Eventually(func() error { // the operator writes annotations of the same Lease
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Name: v1alpha1.BrokerLeaseName("main", broker), Namespace: f.namespace,
		}}
		err := api.Get(context.Background(), client.ObjectKeyFromObject(lease), lease)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		lease.Labels = map[string]string{v1alpha1.LabelCluster: "main"}
		// Like a broker, the test keeps the endpoints that the operator has written to the Lease.
		maps.DeleteFunc(lease.Annotations, func(name, _ string) bool {
			return !strings.HasPrefix(name, v1alpha1.AnnotationEndpointPrefix)
		})
		v1alpha1.ChangeRegistration(lease, func(r *v1alpha1.Registration) { r.Directory = disk })
		now := metav1.NowMicro()
		lease.Spec = coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseTransitions: &epoch, RenewTime: &now,
			LeaseDurationSeconds: new(int32(duration / time.Second)),
		}
		if apierrors.IsNotFound(err) {
			return api.Create(context.Background(), lease)
		}
		return api.Update(context.Background(), lease)
	}).Should(Succeed())
}

// eventuallyRenewing waits until condition succeeds. Meanwhile the given brokers renew their Leases
// as often as live brokers. The renewals are needed because the operator reads nodes and pods from
// the API server itself, with a timeout, and repeats a failed read only at the next renewal.
func (f *fixture) eventuallyRenewing(condition func(Gomega), brokers ...int32) {
	last := time.Now()
	Eventually(func(g Gomega) {
		if time.Since(last) >= lease.RenewInterval {
			for _, id := range brokers {
				change(f, v1alpha1.BrokerLeaseName("main", id), &coordinationv1.Lease{},
					func(l *coordinationv1.Lease) { l.Spec.RenewTime = new(metav1.NowMicro()) })
			}
			last = time.Now()
		}
		condition(g)
	}).Should(Succeed())
}

// expectSeen waits until the operator has observed the Leases of the first count brokers of a
// LogCluster without listeners, which means that it has written the default listener's endpoint to
// each Lease. The initial ISR of a partition contains only brokers that the operator has observed.
func (f *fixture) expectSeen(count int32) {
	for id := range count {
		f.eventuallyRenewing(func(g Gomega) {
			g.Expect(f.lease(g, id).Annotations).To(
				HaveKey(v1alpha1.AnnotationEndpointPrefix + v1alpha1.DefaultListenerName))
		}, id)
	}
}

// register registers the first count brokers of a LogCluster, with known racks. Without racks, new
// partitions with fewer replicas than brokers wait for a minute.
func (f *fixture) register(count int32) {
	for broker := range count {
		f.renew(broker, "holder", 1, "disk", validThroughout)
		f.annotate(broker, map[string]string{v1alpha1.AnnotationRack: "rack"})
	}
}

// expectEvent waits for an event on an object.
func (f *fixture) expectEvent(name, kind, reason string) {
	Eventually(func(g Gomega) {
		events := &eventsv1.EventList{}
		g.Expect(api.List(context.Background(), events,
			client.InNamespace(f.namespace))).To(Succeed())
		var seen []string
		for _, event := range events.Items {
			seen = append(seen, event.Regarding.Name+" "+event.Type+" "+event.Reason)
		}
		g.Expect(seen).To(ContainElement(name + " " + kind + " " + reason))
	}).Should(Succeed())
}

// reconciled returns the number of reconciliations that a controller has completed.
func reconciled(g Gomega, controller string) (sum float64) {
	for _, value := range series(g, "controller_runtime_reconcile_total", "controller",
		controller) {
		sum += value
	}
	return sum
}

// measuredOutages returns the number of outages that metric heartwood_operator_election_seconds has
// observed.
func measuredOutages(g Gomega) (count uint64) {
	families, err := metrics.Registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() == "heartwood_operator_election_seconds" {
			count = family.GetMetric()[0].GetHistogram().GetSampleCount()
		}
	}
	return count
}

// series returns the values of those series of a metric whose label has the given value.
func series(g Gomega, name, label, value string) (values []float64) {
	families, err := metrics.Registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, pair := range metric.GetLabel() {
				if pair.GetName() == label && pair.GetValue() == value {
					values = append(values,
						metric.GetCounter().GetValue()+metric.GetGauge().GetValue())
				}
			}
		}
	}
	return values
}

// lease reads the Lease of a broker of cluster main.
func (f *fixture) lease(g Gomega, broker int32) *coordinationv1.Lease {
	return get(g, f, v1alpha1.BrokerLeaseName("main", broker), &coordinationv1.Lease{})
}
