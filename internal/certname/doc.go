// Package certname derives the name of a principal from the subject of a client certificate. The
// text of a distinguished name is that of Java's X500Principal.getName (RFC 2253), so that ACLs and
// mapping rules (KIP-371) of a Kafka cluster apply unchanged. The package is pure.
package certname
