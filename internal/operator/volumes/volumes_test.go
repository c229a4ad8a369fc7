package volumes

import (
	"reflect"
	"slices"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/placement"
)

// input returns three brokers, and one partition that is in sync on all of them. Broker 1 has found
// a new volume.
func input() Input {
	in := Input{}
	for id := range int32(3) {
		in.Brokers = append(in.Brokers, Broker{ID: id, Up: true, Directory: dir(id), Holds: true,
			Claim: Claim{Name: "claim", UID: "claim-" + dir(id), Volume: Present, Node: Present}})
	}
	in.Brokers[1].Up, in.Brokers[1].Found = false, "new"
	in.Partitions = []Partition{{Name: "orders/0", ISR: members(0, 1, 2)}}
	return in
}

func dir(id int32) string { return string('a' + id) }

func members(ids ...int32) (isr []placement.InSyncReplica) {
	for _, id := range ids {
		isr = append(isr, placement.InSyncReplica{Broker: id, Epoch: 1, Directory: dir(id)})
	}
	return isr
}

// only returns the single lost volume, and checks that it belongs to broker 1.
func only(t *testing.T, d Decision) Lost {
	t.Helper()
	if len(d.Lost) != 1 || d.Lost[0].Broker != 1 {
		t.Fatalf("lost volumes %+v, want that of broker 1", d.Lost)
	}
	return d.Lost[0]
}

func TestCauses(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Broker)
		want   v1alpha1.VolumeLossCause
	}{
		{"new volume", func(*Broker) {}, v1alpha1.LostNewVolume},
		{"first start", func(b *Broker) { b.Directory = "" }, ""},
		{"own volume", func(b *Broker) { b.Found = "" }, ""},
		{"up", func(b *Broker) { b.Up, b.Claim.Lost = true, true }, ""},
		{"no claim", func(b *Broker) { b.Claim = Claim{} }, ""},
		{"phase Lost", func(b *Broker) { b.Found, b.Claim.Lost = "", true },
			v1alpha1.LostVolumeDeleted},
		{"volume deleted", func(b *Broker) { b.Claim.Volume, b.Claim.Node = Absent, Unknown },
			v1alpha1.LostVolumeDeleted},
		{"node deleted", func(b *Broker) { b.Found, b.Claim.Node = "", Absent },
			v1alpha1.LostNodeDeleted},
		{"node unknown", func(b *Broker) { b.Found, b.Claim.Node = "", Unknown }, ""},
	} {
		in := input()
		test.change(&in.Brokers[1])
		d := Decide(in)
		got := v1alpha1.VolumeLossCause("")
		if len(d.Lost) > 0 {
			got = d.Lost[0].Cause
			if d.Lost[0].Write != nil || d.Lost[0].Delete || d.Lost[0].Replacing {
				t.Errorf("%s: replaced without consent: %+v", test.name, d.Lost[0])
			}
		}
		if got != test.want {
			t.Errorf("%s: cause %q, want %q", test.name, got, test.want)
		}
	}
}

func TestConsentIsUsedOnce(t *testing.T) {
	in := input()
	in.Requested = []string{"claim-b", "claim-a", "unknown"}
	d := Decide(in)
	lost := only(t, d)
	want := v1alpha1.VolumeConsent{Claim: "claim-b", Directory: "new"}
	if lost.Write == nil || *lost.Write != want || lost.Used != "claim-b" || lost.Delete {
		t.Fatalf("decision %+v, want %v written", lost, want)
	}
	// Consents for a claim in use, or for claims that do not exist, must not permit anything later.
	if !slices.Equal(d.Unused, []string{"claim-a", "unknown"}) {
		t.Errorf("unused %v", d.Unused)
	}

	// The broker has not read the consent yet.
	in.Requested, in.Brokers[1].Consent = nil, want
	if lost = only(t, Decide(in)); !lost.Replacing || lost.Write != nil || lost.Used != "" {
		t.Errorf("decision %+v, want a replacement in progress", lost)
	}
	// The consent could not be removed because of an error.
	in.Requested = []string{"claim-b"}
	if lost = only(t, Decide(in)); lost.Write != nil || lost.Used != "claim-b" {
		t.Errorf("decision %+v, want the consent removed", lost)
	}
	in.Requested = nil
	// A volume other than the permitted one requires another consent.
	in.Brokers[1].Found = "newer"
	if lost = only(t, Decide(in)); lost.Replacing || lost.Write != nil {
		t.Errorf("decision %+v, want none without consent", lost)
	}
}

// TestNothingIsReplacedWhileNotAllPartitionsAreKnown checks that no volume is replaced while
// partitions are unknown, because an unknown partition may have its only replica on the lost
// volume.
func TestNothingIsReplacedWhileNotAllPartitionsAreKnown(t *testing.T) {
	in := input()
	in.Requested, in.Incomplete = []string{"claim-b"}, true
	for _, holds := range []bool{true, false} {
		in.Brokers[1].Holds = holds
		d := Decide(in)
		lost := only(t, d)
		if lost.Write != nil || lost.Delete {
			t.Errorf("holds %t: %+v, want no action", holds, lost)
		}
		if lost.Replacing {
			t.Errorf("holds %t: %+v, want no replacement", holds, lost)
		}
		if lost.Used != "" || len(d.Unused) > 0 {
			t.Errorf("holds %t: used %q, unused %v, want the consent kept", holds, lost.Used, d.Unused)
		}
	}
}

// TestConsentIsKeptUntilTheStateOfTheBrokerIsKnown checks that a consent is kept while the broker's
// Lease is unverified, as after a restart of the operator, when expired Leases have not been
// verified yet.
func TestConsentIsKeptUntilTheStateOfTheBrokerIsKnown(t *testing.T) {
	for name, change := range map[string]func(*Broker){
		"unverified":        func(b *Broker) { b.Up, b.Unverified, b.Found = true, true, "" },
		"before the expiry": func(b *Broker) { b.Up = true },
	} {
		in := input()
		in.Requested = []string{"claim-b"}
		change(&in.Brokers[1])
		if d := Decide(in); len(d.Unused) > 0 || len(d.Lost) > 0 {
			t.Errorf("%s: %+v, want the consent kept", name, d)
		}
	}
}

func TestClaimIsDeletedAfterTheConsentIsWritten(t *testing.T) {
	in := input()
	b := &in.Brokers[1]
	b.Found, b.Claim.Node, in.Requested = "", Absent, []string{"claim-b"}
	consent := v1alpha1.VolumeConsent{Claim: "claim-b"}
	lost := only(t, Decide(in))
	if lost.Write == nil || *lost.Write != consent || !lost.Delete || lost.Used != "claim-b" {
		t.Fatalf("decision %+v", lost)
	}
	// An operator that was restarted before the deletion resumes it.
	b.Consent, in.Requested = consent, nil
	if lost = only(t, Decide(in)); lost.Write != nil || !lost.Delete || !lost.Replacing {
		t.Fatalf("decision %+v", lost)
	}
	// The broker starts with the next claim.
	b.Claim = Claim{Name: "claim", UID: "next", Volume: Present, Node: Present}
	b.Found = "new"
	lost = only(t, Decide(in))
	want := v1alpha1.VolumeConsent{Claim: "claim-b", Directory: "new"}
	if lost.Write == nil || *lost.Write != want || lost.Delete || !lost.Replacing {
		t.Fatalf("decision %+v, want %v written", lost, want)
	}
	// The next volume is also lost, before the broker has used it. This loss requires another consent.
	b.Found, b.Claim.Volume = "", Absent
	if lost = only(t, Decide(in)); lost.Write != nil || lost.Delete {
		t.Fatalf("decision %+v, want none without consent", lost)
	}
}

func TestLastInSyncReplicaIsNotReplaced(t *testing.T) {
	for _, test := range []struct {
		name         string
		change       func(*Input)
		last, retain []string
	}{
		{"others in sync", func(*Input) {}, nil, nil},
		{"only member", func(in *Input) { in.Partitions[0].ISR = members(1) },
			[]string{"orders/0"}, nil},
		{"other member down", func(in *Input) { in.Brokers[0].Up, in.Brokers[2].Up = false, false },
			nil, nil},
		{"other members lost", func(in *Input) {
			in.Partitions[0].ISR = members(0, 1)
			in.Brokers[0].Up, in.Brokers[0].Found = false, "new-a"
		}, []string{"orders/0"}, nil},
		{"other member replaced", func(in *Input) {
			in.Partitions[0].ISR, in.Brokers[0].Directory = members(0, 1), "later"
		}, []string{"orders/0"}, nil},
		{"retained", func(in *Input) {
			in.Partitions[0].ISR, in.Partitions[0].Retained = members(1), true
		}, nil, []string{"orders/0"}},
		{"not a member", func(in *Input) { in.Partitions[0].ISR = members(0) }, nil, nil},
		{"loss accepted", func(in *Input) {
			in.Partitions[0].ISR, in.Partitions[0].Accepted = members(1), "claim-b"
		}, nil, nil},
		{"loss of the replaced claim accepted", func(in *Input) {
			in.Partitions[0].ISR, in.Partitions[0].Accepted = members(1), "earlier"
			in.Brokers[1].Consent.Claim = "earlier"
		}, nil, nil},
		{"earlier loss accepted", func(in *Input) {
			in.Partitions[0].ISR, in.Partitions[0].Accepted = members(1), "earlier"
			in.Brokers[1].Consent = v1alpha1.VolumeConsent{Claim: "earlier", Directory: "b"}
		}, []string{"orders/0"}, nil},
		{"loss of another broker's claim accepted", func(in *Input) {
			in.Partitions[0].ISR, in.Partitions[0].Accepted = members(1), "claim-a"
		}, []string{"orders/0"}, nil},
	} {
		in := input()
		in.Requested = []string{"claim-b"}
		test.change(&in)
		d := Decide(in)
		index := slices.IndexFunc(d.Lost, func(l Lost) bool { return l.Broker == 1 })
		lost := d.Lost[index]
		if !slices.Equal(lost.LastInSync, test.last) || !slices.Equal(lost.Retained, test.retain) {
			t.Errorf("%s: last in sync %v, retained %v", test.name, lost.LastInSync, lost.Retained)
		}
		blocked := len(test.last)+len(test.retain) > 0
		if (lost.Write == nil) != blocked || lost.Replacing == blocked || lost.Delete {
			t.Errorf("%s: decision %+v", test.name, lost)
		}
		if blocked && slices.Contains(d.Unused, "claim-b") {
			t.Errorf("%s: the consent was withdrawn, although the loss may be accepted", test.name)
		}
	}
}

// TestBrokerWithoutReplicasNeedsNoConsent checks that no consent is needed for a broker without
// replicas, for example if a user deleted its claim on purpose while the LogCluster had fewer
// brokers.
func TestBrokerWithoutReplicasNeedsNoConsent(t *testing.T) {
	in := input()
	in.Brokers[1].Holds, in.Partitions[0].ISR = false, members(0, 2)
	lost := only(t, Decide(in))
	want := v1alpha1.VolumeConsent{Claim: "claim-b", Directory: "new"}
	if lost.Write == nil || *lost.Write != want || lost.Used != "" {
		t.Errorf("decision %+v, want %v written", lost, want)
	}
	in.Brokers[1].Found, in.Brokers[1].Claim.Volume = "", Absent
	if lost = only(t, Decide(in)); lost.Delete {
		t.Error("a claim is deleted without consent")
	}
}

func TestUnreadableVolumes(t *testing.T) {
	in := input()
	b := &in.Brokers[1]
	b.Found, b.Claim.Volume, b.Claim.Node = "", Unknown, Unknown
	in.Requested = []string{"claim-b"}
	d := Decide(in)
	if len(d.Unreadable) > 0 || len(d.Unused) > 0 {
		t.Errorf("%+v, want the consent kept", d)
	}
	b.Unscheduled = true
	if d = Decide(in); !reflect.DeepEqual(d, Decision{Unreadable: []int32{1}}) {
		t.Errorf("%+v, want broker 1 unreadable", d)
	}
}
