// Package process runs the built heartwood binary for tests, like its users: with manifests in a
// directory, over TCP and HTTP, stopped by signals. It uses the binary of HEARTWOOD_BINARY, or
// builds one; a package's TestMain calls Main for that.
//
// Each process has its own ports and directories, so tests may run concurrently.
package process
