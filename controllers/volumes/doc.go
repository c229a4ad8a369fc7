// Package volumes contains the controller of the brokers' volumes. It finds lost volumes, reports
// them in the LogCluster's status, and lets a broker continue with an empty volume once a user has
// consented. Package internal/operator/volumes makes the decisions and documents the invariants.
//
// Every write is a compare-and-swap: an update of a Lease with its resourceVersion, and deletions
// with the UID of the object. A failed step is repeated, because each reconciliation decides only
// from the present state. A consent is written into the Lease before the claim is deleted, so an
// operator that is restarted between these steps can continue.
//
// If a component deletes a broker's claim on purpose, it first writes v1alpha1.VolumeConsent{Claim:
// <UID of the claim>} into the broker's Lease. The broker then continues with the volume of the
// next claim.
//
// PersistentVolumes and nodes are read from the API server itself, and only for brokers that are
// down. An operator that watches single namespaces has no permission to read them. The condition
// then describes what a user must do.
package volumes
