// Package smoke tests the built binary as its users meet it: `heartwood dev` with manifests, real
// clients over TCP, signals, exit codes and HTTP. It takes the binary of HEARTWOOD_BINARY, or
// builds one.
//
// Each test has a process of its own, with ports and folders of its own, so they run side by side.
// Tests wait for what they want to see, never for a while; the deadline only ends a test that would
// fail.
package smoke
