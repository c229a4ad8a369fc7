// Package volumes decides which brokers have lost their volumes, and which of these brokers may
// continue with an empty one. The package is pure; controllers/volumes is its shell.
//
// A broker that starts with an empty volume has the id of a broker that had records. If the loss is
// not noticed, records are lost permanently if the volume held their last copy. So a broker never
// uses another volume than the last one without consent, which a user gives for the UID of a
// PersistentVolumeClaim (ADR 0273). A broker without replicas needs no consent, because it has lost
// nothing.
//
// The consent takes this path: annotation heartwood.dev/replace-volume of the LogCluster, then
// v1alpha1.VolumeConsent in the Lease of the broker, which the broker compares with the directory
// id of its volume.
//
// Invariants:
//  1. A VolumeConsent with a directory id is written only for a directory that the broker has
//     reported, so it permits one volume.
//  2. A claim is deleted only if its volume or the node of its volume is gone, and after its UID is
//     in the Lease.
//  3. Both happen only while each partition with the broker in its ISR has another in-sync replica
//     on a volume that is not lost, or a user has accepted the loss of the partition.
//  4. Consents that name no lost volume are withdrawn. Otherwise a consent that was given twice
//     would permit a later loss.
package volumes
