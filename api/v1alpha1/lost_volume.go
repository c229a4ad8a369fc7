package v1alpha1

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionVolumeLost is True on a LogCluster while a broker's volume is lost. The broker does not
// serve, because it would start with an empty log although its leaders expect it to have the
// records. The condition is Unknown if the operator has no permission to read the objects on which
// it depends.
const ConditionVolumeLost = "VolumeLost"

// Reasons of ConditionVolumeLost.
const (
	// ReasonVolumesPresent: no volume is lost.
	ReasonVolumesPresent = "VolumesPresent"
	// ReasonWaitingForConsent: a broker will start with an empty volume once a user permits this.
	ReasonWaitingForConsent = "WaitingForConsent"
	// ReasonLastInSyncReplica: a volume is not replaced, because it contains the only in-sync replica
	// of a partition.
	ReasonLastInSyncReplica = "LastInSyncReplica"
	// ReasonReplacingVolume: the replacement of every lost volume is permitted and in progress.
	ReasonReplacingVolume = "ReplacingVolume"
	// ReasonVolumesNotReadable: a broker's pod cannot be scheduled, and the operator has no permission
	// to read PersistentVolumes and nodes.
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
	// LostNewVolume: the broker's pod has a different volume than before, for example because the
	// claim was deleted.
	LostNewVolume VolumeLossCause = "NewVolume"
	// LostVolumeDeleted: the claim's PersistentVolume no longer exists.
	LostVolumeDeleted VolumeLossCause = "VolumeDeleted"
	// LostNodeDeleted: the PersistentVolume is on a node that no longer exists.
	LostNodeDeleted VolumeLossCause = "NodeDeleted"
)

// LostVolume is a broker's lost volume.
type LostVolume struct {
	// Broker is the broker id.
	Broker int32 `json:"broker"`
	// Claim is the name of the broker's PersistentVolumeClaim.
	Claim string `json:"claim"`
	// ClaimUID is the claim's UID. As a value of annotation heartwood.dev/replace-volume, it permits
	// the replacement.
	ClaimUID string `json:"claimUID"`
	// Cause is the reason why the volume is lost: NewVolume, VolumeDeleted or NodeDeleted.
	Cause VolumeLossCause `json:"cause"`
	// Replacing is true if the replacement is permitted and in progress.
	// +optional
	Replacing bool `json:"replacing,omitempty"`
	// LastInSync contains at most five partitions whose only in-sync replica is on the volume. The
	// volume is not replaced until a user accepts their loss.
	// +optional
	// +listType=atomic
	LastInSync []string `json:"lastInSync,omitempty"`
	// Retained contains at most five partitions of deleted topics whose only in-sync replica is on the
	// volume. The volume is not replaced until their retained records are removed.
	// +optional
	// +listType=atomic
	Retained []string `json:"retained,omitempty"`
}

// ReplaceVolumes returns the UIDs in annotation heartwood.dev/replace-volume. Commas or spaces
// separate them.
func (c *LogCluster) ReplaceVolumes() []string {
	return strings.FieldsFunc(c.Annotations[AnnotationReplaceVolume], func(r rune) bool {
		return r == ',' || r == ' ' || r == '\n' || r == '\t'
	})
}

// ReplaceVolumeCommand returns the command with which a user permits the replacement of a claim's
// lost volume.
func ReplaceVolumeCommand(c *LogCluster, claimUID string) string {
	return fmt.Sprintf("kubectl annotate logclusters.heartwood.dev %s -n %s --overwrite %s=%s",
		c.Name, c.Namespace, AnnotationReplaceVolume, claimUID)
}

// VolumeConsent is the value of AnnotationVolumeConsent. It permits a broker to continue with
// another volume once.
type VolumeConsent struct {
	// Claim is the UID of the PersistentVolumeClaim that the consent names.
	Claim string
	// Directory is the directory id of the volume with which the broker may continue. If it is empty,
	// the claim is being deleted, and the consent applies to the next directory that the broker finds
	// on another claim.
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

// LeaseVolumeLost reports whether a volume with the given directory id differs from the volume that
// a Lease's broker used last, and has no consent to replace it. A Lease without a directory id
// belongs to a broker that has never started.
func LeaseVolumeLost(lease metav1.Object, directory string) bool {
	registered := ReadRegistration(lease).Directory
	if registered == "" || directory == "" || registered == directory {
		return false
	}
	return LeaseVolumeConsent(lease).Directory != directory
}

// LeaseReplacedClaim returns the UID of the claim whose loss allowed a Lease's broker to continue
// with its current volume. It returns "" if the broker has not replaced a volume with consent.
func LeaseReplacedClaim(lease metav1.Object) string {
	consent := LeaseVolumeConsent(lease)
	if consent.Directory == "" || consent.Directory != ReadRegistration(lease).Directory {
		return ""
	}
	return consent.Claim
}
