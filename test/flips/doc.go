// Package flips damages files at rest of a running cluster, and checks that everything is repaired
// and that nothing damaged reaches a client (docs/operate/failures.md, "Damage at rest").
//
// `make flips` runs it. FLIPS and TRUNCATIONS set the number of damaged places, HEARTWOOD_SEED
// repeats a run. It is not part of `make test`, because a full run takes half an hour.
package flips
