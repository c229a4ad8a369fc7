// Package manifest reads LogCluster and Topic manifests as `kubectl apply` would, without an API
// server: docs/adr/0004.
//
// files.go finds files and cuts them into documents; schema.go checks one object with the API
// server's own code, in the order of its create request: unknown fields, pruning, defaults,
// metadata, schema, CEL; manifest.go puts the objects together and checks what binds them;
// update.go checks what an object may not become.
//
// Every fault is an *Error, whose text begins with the path of the field and goes on in the API
// server's words. One bad object does not hide the faults of another: all come joined.
//
// The rules of a kind are compiled when its first object comes, once a process. The package has no
// goroutine.
package manifest
