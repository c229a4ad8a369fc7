// Package manifest reads LogCluster and Topic manifests like `kubectl apply`, without an API server
// (ADR 0004).
//
// files.go finds files and splits them into documents. schema.go validates one object with the API
// server's own code, in the same order as for a create request: unknown fields, pruning, defaults,
// metadata, schema, CEL. manifest.go collects the objects and checks references between them.
// update.go checks the transition rules for updates.
//
// Every fault is an *Error. Its text consists of the field's path and the API server's message. The
// faults of all objects are returned as one joined error.
//
// The validation rules of a kind are compiled on first use. If the garbage collector has released
// them, they are compiled again. The package has no goroutine.
package manifest
