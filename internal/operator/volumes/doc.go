// Package volumes decides which brokers have lost their volumes, and which of these brokers may
// continue with an empty volume. The package is pure; controllers/volumes performs its I/O.
//
// A broker that starts with an empty volume has the id of a broker that had records. If the volume
// held the last copy of records, an unnoticed loss would be permanent. So without consent, a broker
// never uses a volume other than its last one. A user gives this consent for the UID of a
// PersistentVolumeClaim (ADR 0273). A broker without replicas needs no consent, because it has lost
// nothing.
//
// The user writes the consent into the LogCluster's annotation heartwood.dev/replace-volume. The
// operator then writes a v1alpha1.VolumeConsent into the broker's Lease, which the broker compares
// with the directory id of its volume.
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
