// Package process runs the built heartwood binary for tests, as users run it: with manifests in a
// directory, over TCP and HTTP, and stopped by signals. The environment variable HEARTWOOD_BINARY
// contains the path of the binary. If it is unset, the function Main builds the binary. A test
// package calls Main in TestMain.
//
// Each process has its own ports and directories, so tests can run concurrently.
package process
