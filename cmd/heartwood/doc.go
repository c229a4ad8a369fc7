// Command heartwood contains the operator, the broker, the development cluster and the offline
// tools.
//
// It has no logic of its own: each command converts flags to an Options struct and calls a package.
// Exit codes: 0 success, 1 failure, 2 invalid flags or manifests.
package main
