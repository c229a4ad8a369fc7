// Command heartwood contains the operator, the broker, the development cluster and the offline
// tools.
//
// When it is started under the name kubectl-heartwood, it is the plugin kubectl heartwood (package
// cli).
//
// This package contains no logic: each command converts its flags to an options struct and calls a
// package. The exit codes are 0 for success, 1 for a failure, and 2 for invalid flags or manifests.
package main
