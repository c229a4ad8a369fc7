package v1alpha1

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionVolumeLost is True on a LogCluster while the volume of a broker is lost. The broker does
// not serve, because it would begin with an empty log instead of the records that its leaders
// expect it to have. The condition is Unknown if the operator lacks the permission to read the
// objects for the decision.
const ConditionVolumeLost = "VolumeLost"

// Reasons of ConditionVolumeLost.
const (
	// ReasonVolumesPresent: no volume is lost.
	ReasonVolumesPresent = "VolumesPresent"
	// ReasonWaitingForConsent: a broker starts with an empty volume once this is permitted.
	ReasonWaitingForConsent = "WaitingForConsent"
	// ReasonLastInSyncReplica: a volume is not replaced, because it has the only in-sync replica of a
	// partition.
	ReasonLastInSyncReplica = "LastInSyncReplica"
	// ReasonReplacingVolume: the replacement of each lost volume is permitted and in progress.
	ReasonReplacingVolume = "ReplacingVolume"
	// ReasonVolumesNotReadable: a broker's pod cannot be scheduled, and the operator may not read
	// PersistentVolumes and nodes.
	ReasonVolumesNotReadable = "VolumesNotReadable"
)

// Reasons of events about lost volumes, besides ConditionVolumeLost.
const (
	// EventReplacingVolume: the operator has permitted a broker to start with an empty volume.
	EventReplacingVolume = ReasonReplacingVolume
	// EventConsentUnused: a consent in AnnotationReplaceVolume was removed, because it matches no lost
	// volume.
	EventConsentUnused = "ConsentUnused"
)

// VolumeLossCause is the reason why a volume is lost.
// +kubebuilder:validation:Enum=NewVolume;VolumeDeleted;NodeDeleted
type VolumeLossCause string

// Causes of lost volumes.
const (
	// LostNewVolume: the broker's pod has another volume than the one that the broker used before,
	// for example because its claim was deleted.
	LostNewVolume VolumeLossCause = "NewVolume"
	// LostVolumeDeleted: the PersistentVolume of the claim does not exist any more.
	LostVolumeDeleted VolumeLossCause = "VolumeDeleted"
	// LostNodeDeleted: the PersistentVolume is on a node that does not exist any more.
	LostNodeDeleted VolumeLossCause = "NodeDeleted"
)

// LostVolume is the lost volume of a broker.
type LostVolume struct {
	// Broker is the broker id.
	Broker int32 `json:"broker"`
	// Claim is the name of the broker's PersistentVolumeClaim.
	Claim string `json:"claim"`
	// ClaimUID is the UID of the claim: the value of annotation heartwood.dev/replace-volume that
	// permits the replacement.
	ClaimUID string `json:"claimUID"`
	// Cause is why the volume is lost: NewVolume, VolumeDeleted or NodeDeleted.
	Cause VolumeLossCause `json:"cause"`
	// Replacing is true if the replacement was permitted and is in progress.
	// +optional
	Replacing bool `json:"replacing,omitempty"`
	// LastInSync are partitions, at most five, of which the volume has the only in-sync replica. It
	// is not replaced until their loss is accepted.
	// +optional
	LastInSync []string `json:"lastInSync,omitempty"`
	// Retained are partitions of deleted topics, at most five, of which the volume has the only
	// in-sync replica. It is not replaced until their retained records are removed.
	// +optional
	Retained []string `json:"retained,omitempty"`
}

// ReplaceVolumes returns the UIDs in annotation heartwood.dev/replace-volume, which are separated
// by commas or spaces.
func (c *LogCluster) ReplaceVolumes() []string {
	return strings.FieldsFunc(c.Annotations[AnnotationReplaceVolume], func(r rune) bool {
		return r == ',' || r == ' ' || r == '\n' || r == '\t'
	})
}

// ReplaceVolumeCommand returns the command by which a person permits the replacement of the lost
// volume of a claim.
func ReplaceVolumeCommand(c *LogCluster, claimUID string) string {
	return fmt.Sprintf("kubectl annotate logclusters.heartwood.dev %s -n %s --overwrite %s=%s",
		c.Name, c.Namespace, AnnotationReplaceVolume, claimUID)
}

// VolumeConsent is the value of AnnotationVolumeConsent. It permits a broker to continue with
// another volume, once.
type VolumeConsent struct {
	// Claim is the UID of the PersistentVolumeClaim that was named in the consent.
	Claim string
	// Directory is the directory id of the volume with which the broker may continue. If it is empty,
	// the claim is being deleted, and the consent is for the next directory that the broker finds on
	// another claim.
	Directory string
}

// String is the inverse of ParseVolumeConsent.
func (c VolumeConsent) String() string { return strings.TrimSpace(c.Claim + " " + c.Directory) }

// ParseVolumeConsent parses a value of AnnotationVolumeConsent. The zero value permits nothing.
func ParseVolumeConsent(text string) VolumeConsent {
	claim, directory, _ := strings.Cut(text, " ")
	return VolumeConsent{Claim: claim, Directory: directory}
}

// LeaseVolumeConsent returns the consent in a broker's Lease.
func LeaseVolumeConsent(lease metav1.Object) VolumeConsent {
	return ParseVolumeConsent(lease.GetAnnotations()[AnnotationVolumeConsent])
}

// LeaseVolumeLost reports whether a volume with a directory id is another one than the broker of a
// Lease used last, and may not replace that one. A Lease without a directory id belongs to a broker
// that has never started.
func LeaseVolumeLost(lease metav1.Object, directory string) bool {
	registered := ReadRegistration(lease).Directory
	if registered == "" || directory == "" || registered == directory {
		return false
	}
	return LeaseVolumeConsent(lease).Directory != directory
}

// LeaseReplacedClaim returns the UID of the claim whose loss permitted the broker of a Lease to
// continue with its present volume; "" if the broker has not replaced a volume with consent.
func LeaseReplacedClaim(lease metav1.Object) string {
	consent := LeaseVolumeConsent(lease)
	if consent.Directory == "" || consent.Directory != ReadRegistration(lease).Directory {
		return ""
	}
	return consent.Claim
}
