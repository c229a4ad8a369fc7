package wire

// Principal is the identity of a connection's client, as in Kafka's KafkaPrincipal.
type Principal struct {
	Type string // "User"
	Name string
}

// Anonymous is the principal of a connection on a listener without authentication.
var Anonymous = Principal{Type: "User", Name: "ANONYMOUS"}

// String returns the principal in the form of Kafka's ACLs, such as "User:alice".
func (p Principal) String() string { return p.Type + ":" + p.Name }
