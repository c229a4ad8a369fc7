// Package volumes contains the controller of the brokers' volumes. It finds lost volumes, reports
// them in the status of the LogCluster, and lets a broker continue with an empty volume once a
// person has consented; internal/operator/volumes decides, and documents the invariants.
//
// Every write is a compare-and-swap: an update of a Lease with its resourceVersion, and deletions
// with the UID of the object. A step that fails is repeated, because each reconciliation decides
// from the present state only. A consent is written into the Lease before the claim is deleted, so
// an operator that is restarted in between continues.
//
// A component that deletes the claim of a broker on purpose writes
// v1alpha1.VolumeConsent{Claim: <UID of the claim>} into the broker's Lease first. The broker then
// continues with the volume of the next claim.
//
// PersistentVolumes and nodes are read from the API server itself, and only for brokers that are
// down. An operator that watches single namespaces may not read them; the condition then says what
// a person does.
package volumes
