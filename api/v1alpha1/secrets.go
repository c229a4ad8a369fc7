package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The Secrets of a LogCluster and their keys. Certificates are in PEM, private keys are PKCS #8 in
// PEM.
//
//	<cluster>-ca, -users-ca, -peer-ca   private keys of the CAs; the operator only
//	<cluster>-ca-cert                   the certificates that clients verify brokers with
//	<cluster>-brokers-tls               certificates and keys of brokers; read by brokers
//	<cluster>-scram-<n>                 SCRAM verifiers of LogUsers; read by brokers
//	<cluster>-scram-admin               SCRAM verifiers set by admin clients; written by brokers
//	<user>-logcluster                   credentials of one LogUser; read by its applications

// CASecretName returns the name of the Secret with the CA of the listeners' certificates.
func CASecretName(cluster string) string { return cluster + "-ca" }

// UsersCASecretName returns the name of the Secret with the CA of LogUsers' certificates.
func UsersCASecretName(cluster string) string { return cluster + "-users-ca" }

// PeerCASecretName returns the name of the Secret with the CA of the brokers' peer certificates.
func PeerCASecretName(cluster string) string { return cluster + "-peer-ca" }

// CACertSecretName returns the name of the Secret with the certificates with which clients verify
// brokers: key ca.crt for listeners with the cluster's own CA, and key KeyPeerCA for the HTTP port.
func CACertSecretName(cluster string) string { return cluster + "-ca-cert" }

// BrokersTLSSecretName returns the name of the Secret with the brokers' certificates.
func BrokersTLSSecretName(cluster string) string { return cluster + "-brokers-tls" }

// ScramSecretName returns the name of a shard of the LogUsers' SCRAM verifiers. A LogCluster's
// shards are numbered from 0, without gaps. A LogUser's key is its resource name; the value is the
// JSON of ScramVerifiers.
func ScramSecretName(cluster string, shard int) string {
	return cluster + "-scram-" + strconv.Itoa(shard)
}

// ScramAdminSecretName returns the name of the Secret with the SCRAM verifiers that admin clients
// have set (AlterUserScramCredentials). A user's key is ScramAdminKey; the value is the JSON of
// ScramVerifiers.
func ScramAdminSecretName(cluster string) string { return cluster + "-scram-admin" }

// ScramAdminKey returns a user's key in the Secret ScramAdminSecretName. It contains the user's
// name in hexadecimal, because some characters are not allowed in the keys of a Secret.
func ScramAdminKey(userName string) string { return fmt.Sprintf("user.%x", userName) }

// UserSecretName returns the name of the Secret with a LogUser's credentials.
func UserSecretName(user string) string { return user + "-logcluster" }

// Keys of Secret BrokersTLSSecretName.
const (
	// KeyPeerCA contains the certificates of the peer CA.
	KeyPeerCA = "peer-ca.crt"
	// KeyUsersCA contains the certificates of the users CA.
	KeyUsersCA = "users-ca.crt"
	// KeyUnknownUsers contains 32 random bytes. From these bytes, brokers derive the salts that they
	// send for unknown users. So clients cannot distinguish unknown users from known ones.
	KeyUnknownUsers = "unknown-users.key"
)

// ListenerCertificateKeys returns the keys of a listener's certificate chain and private key.
func ListenerCertificateKeys(listener string) (certificate, key string) {
	return "listener." + listener + ".crt", "listener." + listener + ".key"
}

// ListenerClientCAKey returns the key for the CAs in a listener's Authentication.ClientCAs. Each CA
// is a trust anchor. If the users CA applies, the key is absent. If the key's value contains no
// certificate, because the CA could not be read, no client certificate is valid.
func ListenerClientCAKey(listener string) string {
	return "listener." + listener + ".client-ca.crt"
}

// ListenerOAuthCAKey returns the key for the CA in a listener's OAuth.CA. If the public CAs apply,
// the key is absent.
func ListenerOAuthCAKey(listener string) string {
	return "listener." + listener + ".oauth-ca.crt"
}

// PeerCertificateKeys returns the keys of a broker's peer certificate and private key. The
// certificate has the URI PeerURI, and the DNS names of the broker's pod in the headless Service.
func PeerCertificateKeys(broker int32) (certificate, key string) {
	id := strconv.Itoa(int(broker))
	return "peer." + id + ".crt", "peer." + id + ".key"
}

// TrustFingerprint returns a hash of the CA certificates in Secret BrokersTLSSecretName with which
// brokers verify other brokers and users.
func TrustFingerprint(brokersTLS map[string][]byte) string {
	hash := sha256.New()
	for _, key := range []string{KeyPeerCA, KeyUsersCA} {
		sum := sha256.Sum256(brokersTLS[key])
		hash.Write(sum[:])
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

// PeerURI returns the URI subject alternative name that identifies a broker in its peer
// certificate.
func PeerURI(namespace, cluster string, broker int32) string {
	return "heartwood://" + namespace + "/" + cluster + "/broker/" + strconv.Itoa(int(broker))
}

// OperatorURI returns the URI subject alternative name of the operator's client certificate, which
// the LogCluster's peer CA issues.
func OperatorURI(namespace, cluster string) string {
	return "heartwood://" + namespace + "/" + cluster + "/operator"
}

// ServiceAccountAudience returns the audience in tokens of ServiceAccounts for a LogCluster.
func ServiceAccountAudience(namespace, cluster string) string {
	return "heartwood/" + namespace + "/" + cluster
}

// PreviousPasswordLifetime is the time for which the previous password remains valid after a
// rotation.
const PreviousPasswordLifetime = time.Hour

// SASL mechanisms.
const (
	ScramSha256 = "SCRAM-SHA-256"
	ScramSha512 = "SCRAM-SHA-512"
	OAuthBearer = "OAUTHBEARER"
)

// ScramVerifiers contains one user's verifiers. A client can authenticate with any of them. They do
// not contain the password, but an attacker can use them to guess it offline.
type ScramVerifiers struct {
	UserName  string          `json:"userName"`
	UID       string          `json:"uid"` // of the LogUser
	Verifiers []ScramVerifier `json:"verifiers"`
}

// ScramVerifier verifies a password with one mechanism (RFC 5802).
type ScramVerifier struct {
	Mechanism  string `json:"mechanism"` // ScramSha256 or ScramSha512
	Iterations int    `json:"iterations"`
	Salt       []byte `json:"salt"`
	StoredKey  []byte `json:"storedKey"`
	ServerKey  []byte `json:"serverKey"`
	// NotAfter is set if the password was rotated. The password is not valid after this time.
	NotAfter *metav1.Time `json:"notAfter,omitempty"`
}

// Encode returns the verifiers as a value of a Secret.
func (v *ScramVerifiers) Encode() ([]byte, error) { return json.Marshal(v) }

// DecodeScramVerifiers decodes a value of a Secret. It does not check the verifiers.
func DecodeScramVerifiers(data []byte) (*ScramVerifiers, error) {
	v := &ScramVerifiers{}
	if err := json.Unmarshal(data, v); err != nil {
		return nil, fmt.Errorf("decode SCRAM verifiers: %w", err)
	}
	return v, nil
}
