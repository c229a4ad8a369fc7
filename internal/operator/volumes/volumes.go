package volumes

import (
	"slices"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/placement"
)

// Presence states whether an object exists.
type Presence int

// Unknown means that the operator has no permission to read the object, or that the read failed.
const (
	Unknown Presence = iota
	Present
	Absent
)

// Claim is a broker's PersistentVolumeClaim.
type Claim struct {
	Name string
	UID  string // "" if the claim does not exist
	// Lost is true if Kubernetes reports that the PersistentVolume no longer exists.
	Lost bool
	// Volume is the presence of the claim's PersistentVolume. Node is the presence of a node that can
	// mount it. Both are Present if the claim has no volume yet, or if the broker is up, because its
	// volume is then not checked.
	Volume, Node Presence
}

// Broker is the known state of a broker and its volume.
type Broker struct {
	ID int32
	Up bool // true if the broker renews its Lease, or may be renewing it
	// Unverified is true if it is not known yet whether the broker renews its Lease. Up is then true.
	Unverified bool
	// Directory is the directory id with which the broker last registered; "" before the first start.
	Directory string
	// Found is the directory id of another volume that the broker has found instead; "" if there is
	// none.
	Found   string
	Consent v1alpha1.VolumeConsent // consent in the Lease
	Claim   Claim
	// Unscheduled is true if the broker's pod has not been scheduled to a node for some time.
	Unscheduled bool
	// Holds is true if any partition, including a retained one, has a replica on the broker or is
	// assigned to it.
	Holds bool
}

// Partition is a partition that has in-sync replicas.
type Partition struct {
	Name string // topic/index
	ISR  []placement.InSyncReplica
	// Retained is true for a partition of a deleted topic whose records are retained.
	Retained bool
	// Accepted is the consent to the loss of the partition's records; "" without consent. For a lost
	// volume, it is a claim's UID.
	Accepted string
}

// Input is the input of a decision.
type Input struct {
	Brokers    []Broker // running brokers, by id
	Partitions []Partition
	// Incomplete is true if not all partitions are known. No volume is then replaced.
	Incomplete bool
	Requested  []string // UIDs in annotation heartwood.dev/replace-volume
}

// Lost is a lost volume, and the actions for it.
type Lost struct {
	v1alpha1.LostVolume
	// Write is the VolumeConsent that must be written into the Lease; nil if there is none.
	Write *v1alpha1.VolumeConsent
	// Used is the UID in Requested that has taken effect and must be removed; "" if there is none.
	Used string
	// Delete is true if the claim and the pod must be deleted once Write has been written.
	Delete bool
}

// Decision is the result of Decide.
type Decision struct {
	Lost []Lost // by broker id
	// Unreadable contains the brokers whose volumes may be lost but could not be checked.
	Unreadable []int32
	// Unused contains the UIDs in Requested that match no lost volume.
	Unused []string
}

// GivesUp reports whether the decision permits an empty volume in place of a lost one.
func (d *Decision) GivesUp() bool {
	return slices.ContainsFunc(d.Lost, func(l Lost) bool { return l.Write != nil || l.Delete })
}

// AnyLost reports whether any volume is lost. Without lost volumes, the decision does not depend on
// partitions.
func (in *Input) AnyLost() bool {
	return slices.ContainsFunc(in.Brokers, func(b Broker) bool { return b.cause() != "" })
}

// Decide returns the lost volumes. It does not depend on earlier decisions, so a failed step is
// simply decided again.
func Decide(in Input) Decision {
	d := Decision{}
	causes := make([]v1alpha1.VolumeLossCause, len(in.Brokers))
	for i := range in.Brokers {
		causes[i] = in.Brokers[i].cause()
	}
	guard := newGuard(in, causes)
	named := map[string]bool{}
	for i := range in.Brokers {
		b := &in.Brokers[i]
		switch {
		case causes[i] != "":
			named[b.Claim.UID] = true
			d.Lost = append(d.Lost, b.decide(causes[i], &in, guard))
		case b.unreadable():
			d.Unreadable = append(d.Unreadable, b.ID)
		}
		if b.unknown() || b.Unverified || b.foundOther() {
			named[b.Claim.UID] = true // kept, because the volume may be lost
		}
	}
	for _, uid := range in.Requested {
		if !named[uid] {
			d.Unused = append(d.Unused, uid)
		}
	}
	return d
}

// cause returns the reason why a broker's volume counts as lost, or "" if it is not lost. A missing
// claim is no reason, because the StatefulSet controller creates the claim again, and the broker
// then reports the new volume.
func (b *Broker) cause() v1alpha1.VolumeLossCause {
	switch {
	case b.Claim.UID == "" || b.Directory == "":
		return "" // a broker that never started has no records
	case b.Up:
		return ""
	// Check these cases first, because a broker that has found another volume may also have lost that
	// volume.
	case b.Claim.Lost || b.Claim.Volume == Absent:
		return v1alpha1.LostVolumeDeleted
	case b.Claim.Volume == Present && b.Claim.Node == Absent:
		return v1alpha1.LostNodeDeleted
	case b.foundOther():
		return v1alpha1.LostNewVolume
	}
	return ""
}

// foundOther reports whether the broker has found a volume other than its last one, and is waiting.
// The Lease of its previous process may still be valid.
func (b *Broker) foundOther() bool { return b.Found != "" && b.Found != b.Directory }

// unknown reports whether the operator could not read the volume of a broker that is down, or the
// volume's node.
func (b *Broker) unknown() bool {
	return !b.Up && b.Directory != "" && b.Claim.UID != "" &&
		(b.Claim.Volume == Unknown || b.Claim.Node == Unknown)
}

// unreadable reports whether a broker's volume may be lost but could not be checked. If the pod has
// been scheduled, its volume and node exist.
func (b *Broker) unreadable() bool { return b.unknown() && b.Unscheduled }

// decide returns the actions for a broker's lost volume.
func (b *Broker) decide(cause v1alpha1.VolumeLossCause, in *Input, guard guard) Lost {
	lost := Lost{LostVolume: v1alpha1.LostVolume{Broker: b.ID, Claim: b.Claim.Name,
		ClaimUID: b.Claim.UID, Cause: cause}}
	consents := slices.Contains(in.Requested, b.Claim.UID)
	if cause == v1alpha1.LostNewVolume && b.Consent.Claim != "" && b.Consent.Directory == b.Found {
		lost.Replacing = true // the broker will soon register
		if consents {
			lost.Used = b.Claim.UID // an error has prevented the removal of the UID
		}
		return lost
	}
	lost.LastInSync, lost.Retained = guard.blocking(b.ID)
	claim := b.permitted(cause)
	if claim == "" && (consents || cause == v1alpha1.LostNewVolume && !b.Holds) {
		claim = b.Claim.UID
	}
	if claim == "" || in.Incomplete || len(lost.LastInSync)+len(lost.Retained) > 0 {
		return lost
	}
	lost.Replacing = true
	next := v1alpha1.VolumeConsent{Claim: claim}
	if cause == v1alpha1.LostNewVolume {
		next.Directory = b.Found
	} else {
		lost.Delete = true
	}
	if next != b.Consent {
		lost.Write = &next
	}
	if consents {
		lost.Used = b.Claim.UID
	}
	return lost
}

// permitted returns the UID of the claim whose replacement an earlier consent permits, or "" if
// there is none. If the claim must be deleted, this is the claim's own UID. If the broker has found
// a new volume, it is the UID of an earlier claim that was deleted and replaced with this one.
func (b *Broker) permitted(cause v1alpha1.VolumeLossCause) string {
	isThis := b.Consent.Claim == b.Claim.UID
	if b.Consent.Directory != "" || isThis == (cause == v1alpha1.LostNewVolume) {
		return ""
	}
	return b.Consent.Claim
}
