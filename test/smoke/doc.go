// Package smoke tests the built binary as users run it: `heartwood dev` with manifests, real
// clients over TCP, signals, exit codes and HTTP. The environment variable HEARTWOOD_BINARY
// contains the path of the binary. If it is unset, the package builds the binary.
//
// Each test has its own process, ports and folders, so tests run in parallel. Tests wait for
// conditions, never for a fixed time. If a condition is never met, the test ends after await.Limit.
package smoke
