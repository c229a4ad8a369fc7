// Package credentials makes the credentials of LogUsers: passwords, the SCRAM verifiers from which
// brokers verify them, and the files with which clients connect. It is pure: time comes in as an
// argument, and the caller stores the results in Secrets or files.
//
//   - password.go makes passwords and verifiers, and keeps the verifiers of a rotated password.
//   - files.go renders the configuration of a client for Java and for librdkafka.
//   - shards.go distributes the verifiers of many users over Secrets.
package credentials
