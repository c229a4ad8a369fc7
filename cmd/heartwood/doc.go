// Command heartwood contains the operator, the broker, the development cluster and the offline
// tools.
//
// Under the name kubectl-heartwood it is the plugin kubectl heartwood (package cli).
//
// It contains no logic: each command converts its flags to a struct of options and calls a package.
// Exit codes: 0 success, 1 failure, 2 invalid flags or manifests.
package main
