// Package process runs the built heartwood binary for tests, as its users do: with manifests in a
// folder, over TCP and HTTP, ended by signals. It takes the binary of HEARTWOOD_BINARY, or builds
// one; a package's TestMain calls Main for that.
//
// Each process has ports and folders of its own, so tests run side by side.
package process
