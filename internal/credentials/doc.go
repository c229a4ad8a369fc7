// Package credentials generates the credentials of LogUsers: passwords, the SCRAM verifiers with
// which brokers verify them, and the files with which clients connect. It is pure: the time is an
// argument, and the caller stores the results in Secrets or files.
//
//   - password.go generates passwords and verifiers, and keeps the verifiers of the previous
//     password after a rotation.
//   - files.go renders the configuration of a client for Java and for librdkafka.
//   - shards.go distributes the verifiers of many users over Secrets.
package credentials
