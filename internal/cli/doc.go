// Package cli contains the commands of kubectl heartwood.
//
// The commands act only with the rights of the user. They read and change resources, and connect to
// brokers through the API server (package forward), so they need neither a network route to the
// brokers nor an account of their own. The cleaner's state is read from the brokers' HTTP ports;
// package kafka reads and writes records. If the user may not read some resources, a command omits
// them and prints a line about the omission.
//
//   - root.go: the root command, its flags and exit codes. session.go: the connection to the API
//     server. brokers_http.go, brokers_kafka.go: the connections to brokers.
//   - plan.go: the plan that a command prints before it changes anything.
//   - One file for each command.
//
// Commands that change a LogCluster only set the fields and annotations of its resources; the
// operator does the work, and continues even if the command is interrupted.
package cli
