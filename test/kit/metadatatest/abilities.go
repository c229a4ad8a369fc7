package metadatatest

import (
	"fmt"
	"slices"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/test/kit/await"
)

// Kind names an implementation of metadata.Store.
type Kind string

// The implementations.
const (
	Kube   Kind = "kube"
	Local  Kind = "local"
	Remote Kind = "remote"
)

// abilities are the optional interfaces of stores, with the implementations that have them. A
// broker uses an optional interface only if its store implements it.
var abilities = []struct {
	name  string
	has   func(any) bool
	kinds []Kind
}{
	{"ShutdownAnnouncer", has[metadata.ShutdownAnnouncer], []Kind{Kube, Local, Remote}},
	{"RemovalRecorder", has[metadata.RemovalRecorder], []Kind{Kube, Local, Remote}},
	{"VolumeReporter", has[metadata.VolumeReporter], []Kind{Kube, Local, Remote}},
	// A development cluster has no volumes that a user replaces. Its brokers are processes of one
	// machine, so they always reach each other.
	{"RegistrationWaiter", has[metadata.RegistrationWaiter], []Kind{Kube}},
	{"ReachabilityReporter", has[metadata.ReachabilityReporter], []Kind{Kube}},
}

func has[T any](store any) bool {
	_, ok := store.(T)
	return ok
}

func testAbilities(c *cluster) {
	store := c.world.Open(c.TB, 0)
	for _, ability := range abilities {
		if got, want := ability.has(store), slices.Contains(ability.kinds, c.kind); got != want {
			c.Errorf("%s: got %t, want %t", ability.name, got, want)
		}
	}
}

// testVolume checks that no replicas are assigned to a broker whose volume is almost full. The
// report can take a while to have an effect, and a later report ends this effect.
func testVolume(c *cluster) {
	all := c.startAll()
	report := func(pressure string) {
		all[2].Store.(metadata.VolumeReporter).ReportVolume(v1alpha1.BrokerVolume{
			Pressure: pressure, UsedPercent: 95, TotalBytes: 1 << 30})
	}
	created := 0
	// placed reports whether a new topic has a replica on broker 2.
	placed := func() bool {
		name := fmt.Sprintf("topic-%d", created)
		created++
		if _, err := all[0].CreateTopic(c.Context(), metadata.NewTopic{Name: name,
			Partitions: 6, Replicas: 1}); err != nil {
			c.Fatal(err)
		}
		topic := all[0].until("leaders of "+name, func(i *metadata.Image) bool {
			found := i.Topic(name)
			return found != nil && !slices.ContainsFunc(found.Partitions,
				func(p *metadata.Partition) bool { return p.Leader == metadata.NoBroker })
		}).Topic(name)
		return slices.ContainsFunc(topic.Partitions,
			func(p *metadata.Partition) bool { return slices.Contains(p.Replicas, 2) })
	}
	if !placed() {
		c.Fatal("broker 2 has no replica although no broker is full")
	}
	report(v1alpha1.PressureReject)
	await.Until(c.TB, "no replicas for a full broker", func() bool { return !placed() })
	report("")
	await.Until(c.TB, "replicas for a broker that is not full any more", placed)
}

// testWaits checks that a broker's registration waits until a user permits the broker's new disk.
func testWaits(c *cluster) {
	c.start(0).stop()
	again := c.launch(metadata.Broker{ID: 0, CleanEpoch: -1, Directory: "another disk"})
	waiter := again.Store.(metadata.RegistrationWaiter)
	await.Until(c.TB, "the registration waits", func() bool { return waiter.WaitsFor() != nil })
	if again.last() != nil {
		c.Error("the broker has an image although its registration waits")
	}
	again.until("registered", func(*metadata.Image) bool { return true }) // makes the decision
	if err := waiter.WaitsFor(); err != nil {
		c.Errorf("the registered broker waits: %v", err)
	}
}

// testUnreachable checks that the Lease contains the last report, and that the next Run clears it.
func testUnreachable(c *cluster) {
	leases := c.world.(Leases)
	reported := func(want string) {
		c.Helper()
		await.Until(c.TB, fmt.Sprintf("report %q", want),
			func() bool { return leases.Unreachable(c.TB, 0) == want })
	}
	b := c.start(0)
	reporter := b.Store.(metadata.ReachabilityReporter)
	reporter.ReportUnreachable("1:1,2:1")
	reported("1:1,2:1")
	reporter.ReportUnreachable("1:1")
	reported("1:1")
	b.stop()
	c.start(0)
	if got := leases.Unreachable(c.TB, 0); got != "" {
		c.Errorf("the report after the next Run is %q, want none", got)
	}
}

// testIsolated checks that an isolated broker is Leaving, is not elected, and cannot join an ISR.
func testIsolated(c *cluster) {
	all := c.startAll()
	all[1].create("a", 1)
	c.world.(Leases).Isolate(c.TB, 0)
	image := all[1].until("another leader", func(i *metadata.Image) bool {
		p := i.Topic("a").Partitions[0]
		return p.Leader != 0 && p.Leader != metadata.NoBroker && !slices.Contains(p.ISR, 0)
	})
	if b, up := image.Broker(0); !up || !b.Isolated || !b.Leaving {
		c.Errorf("got broker %+v, up %t; want it to be isolated and leaving", b, up)
	}
	leader := image.Topic("a").Partitions[0].Leader
	_, faults := all[leader].propose(proposal(image, "a", 0, 0, 1, 2))
	c.expect("isolated member", faults[0], metadata.ErrISRConflict)
	all[0].stop()
	if b, _ := c.start(0).last().Broker(0); b.Isolated || b.Leaving {
		c.Errorf("broker 0 is %+v after its next Run", b)
	}
}

// testDeletedLease checks that a broker whose Lease was deleted registers in a later epoch than any
// epoch that a partition has recorded.
func testDeletedLease(c *cluster) {
	all := c.startAll()
	elected := all[0].create("a", 1).Partitions[0].LeaderEpoch
	all[0].stop()
	c.world.(Leases).DeleteLease(c.TB, 0)
	checkNoEarlierEpoch(c.start(0), elected)
}
