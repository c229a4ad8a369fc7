// Package cli contains the commands of kubectl heartwood.
//
// The commands act with the rights of their caller only: they read and change resources, and reach
// brokers through the API server (package forward), so they need neither a route nor an account of
// their own. The brokers' HTTP port shows the cleaner's state; package kafka reads and writes
// records. A command leaves out what the caller may not read, with a line that says so.
//
//   - root.go: the root command, its flags and exit codes. session.go: the connection to the API
//     server. brokers_http.go, brokers_kafka.go: the connections to brokers.
//   - plan.go: commands that change something print their plan first.
//   - One file for each command.
//
// Commands that change a LogCluster only set the fields and annotations of its resources; the
// operator does the work, and continues if the command is interrupted.
package cli
