// Package smoke tests the built binary as users run it: `heartwood dev` with manifests, real
// clients over TCP, signals, exit codes and HTTP. It uses the binary of HEARTWOOD_BINARY, or builds
// one.
//
// Each test has its own process, ports and folders, so tests run in parallel. They wait for
// conditions, never for a fixed time; the deadline only ends a test that has failed.
package smoke
