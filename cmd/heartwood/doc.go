// Command heartwood is the operator, the broker, the development cluster and the offline tools, in
// one binary.
//
// It holds no logic: each command turns flags into an Options struct and calls the package that
// does the work. Exit codes: 0 done, 1 it failed, 2 the flags or manifests are wrong.
package main
