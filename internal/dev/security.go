package dev

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/broker"
	"heartwood.dev/heartwood/internal/credentials"
	"heartwood.dev/heartwood/internal/pki"
)

// Names of directories in the data directory.
const (
	pkiDir    = "pki"   // the CAs, and the certificates of brokers
	usersDir  = "users" // the credentials of each LogUser
	brokerPKI = "brokers"
)

const (
	// secureInterval is how often certificates are checked for renewal.
	secureInterval = time.Hour
	// devNamespace replaces the namespace in the brokers' certificates.
	devNamespace = "dev"
)

// security issues the brokers' certificates and the LogUsers' credentials, as the operator does on
// Kubernetes. It stores them in the data directory, with one file for each key of the Secrets. Only
// the files' owner may read them. Only Run's goroutine accesses the fields, except for
// certificates.
type security struct {
	dir     string   // data directory
	cluster string   // name of the LogCluster
	hosts   []string // hosts to which clients connect
	brokers int

	authorities map[string]*pki.Authority
	// passwords contains the LogUsers' passwords with their verifiers, because deriving verifiers
	// takes time.
	passwords map[string]password
	// certificates contains the certificates of the brokers in this process, by broker id.
	certificates []*broker.Certificates
}

type password struct {
	password  string
	verifiers *v1alpha1.ScramVerifiers
}

// authorityNames maps the CAs' directories to the names in their certificates.
var authorityNames = map[string]string{
	"ca": "heartwood dev CA", "users-ca": "heartwood dev users CA",
	"peer-ca": "heartwood dev peer CA",
}

// openSecurity reads the CAs, or creates them if they do not exist.
func openSecurity(dataDir, cluster string, hosts []string, brokers int) (*security, error) {
	s := &security{dir: dataDir, cluster: cluster, hosts: hosts, brokers: brokers,
		authorities: map[string]*pki.Authority{}, passwords: map[string]password{}}
	for range brokers {
		s.certificates = append(s.certificates, broker.NewCertificates())
	}
	for directory := range authorityNames {
		files, err := readPrivate(filepath.Join(dataDir, pkiDir, directory))
		if err != nil {
			return nil, err
		}
		s.authorities[directory] = &pki.Authority{}
		if len(files) > 0 {
			if s.authorities[directory], err = pki.Decode(files); err != nil {
				return nil, fmt.Errorf("read CA %s: %w", directory, err)
			}
		}
	}
	err := s.stepAuthorities()
	return s, err
}

// stepAuthorities creates missing CAs, replaces CAs that expire soon, and stores them. Brokers load
// a new CA long before it issues certificates; brokers in this process load it immediately.
func (s *security) stepAuthorities() error {
	for directory, name := range authorityNames {
		next, changed, err := s.authorities[directory].Step(time.Now(),
			pki.Input{Name: name, Loaded: true})
		if err != nil {
			return err
		}
		if !changed {
			continue
		}
		files, err := next.Encode()
		if err == nil {
			err = writePrivate(filepath.Join(s.dir, pkiDir, directory), files)
		}
		if err != nil {
			return fmt.Errorf("write CA %s: %w", directory, err)
		}
		s.authorities[directory] = next
	}
	return nil
}

// update issues all brokers' certificates that are missing or expire soon, and stores them. The
// brokers in this process use them immediately.
func (s *security) update(listeners v1alpha1.Listeners) error {
	names := make([]string, len(listeners))
	for i := range listeners {
		names[i] = listeners[i].Name
	}
	var faults []error
	for id := range s.brokers {
		data, err := s.issue(id, listeners)
		if err == nil {
			err = s.certificates[id].Update(data, names, int32(id))
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("certificates of broker %d: %w", id, err))
		}
	}
	return errors.Join(faults...)
}

// brokerPKIDir returns the directory of a broker's certificates in dataDir.
func brokerPKIDir(dataDir string, id int) string {
	return filepath.Join(dataDir, pkiDir, brokerPKI, strconv.Itoa(id))
}

// issue returns a broker's certificates, with the keys of the Secret v1alpha1.BrokersTLSSecretName.
func (s *security) issue(id int, listeners v1alpha1.Listeners) (map[string][]byte, error) {
	dir := brokerPKIDir(s.dir, id)
	stored, err := readPrivate(dir)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{v1alpha1.KeyPeerCA: s.authorities["peer-ca"].Bundle(),
		v1alpha1.KeyUsersCA: s.authorities["users-ca"].Bundle()}
	add := func(authority, certificate, key string, request pki.Request) error {
		leaf, err := s.leaf(authority, request, stored[certificate], stored[key])
		data[certificate], data[key] = leaf.Chain, leaf.Key
		return err
	}
	certificate, key := v1alpha1.PeerCertificateKeys(int32(id))
	err = add("peer-ca", certificate, key, pki.Request{CommonName: fmt.Sprintf("broker-%d", id),
		URIs:   []string{v1alpha1.PeerURI(devNamespace, s.cluster, int32(id))},
		Server: true, Client: true})
	for i := range listeners {
		if listeners[i].TLS != nil && err == nil {
			certificate, key := v1alpha1.ListenerCertificateKeys(listeners[i].Name)
			err = add("ca", certificate, key,
				pki.ListenerNames{Hosts: s.hosts}.Request("heartwood dev"))
		}
	}
	if err == nil {
		err = s.addForeignCAs(listeners, data)
	}
	if err != nil || maps.EqualFunc(stored, data, slices.Equal) {
		return data, err
	}
	if err := writePrivate(dir, data); err != nil {
		return nil, err
	}
	// Otherwise a broker's process would use the CA in a field that was removed from the manifest.
	return data, removeOthers(dir, data)
}

// leaf returns the stored leaf certificate, or a new one if that is due.
func (s *security) leaf(authority string, request pki.Request,
	chain, key []byte) (leaf pki.Leaf, err error) {
	now := time.Now()
	if len(chain) > 0 {
		leaf, _ = pki.ParseLeaf(chain, key) // an invalid leaf is replaced
	}
	if s.authorities[authority].Due(leaf, request, now) == "" {
		return leaf, nil
	}
	return s.authorities[authority].Issue(request, now)
}

// verifiers returns the verifiers of all LogUsers of type Scram, and creates missing passwords.
func (s *security) verifiers(users []*v1alpha1.LogUser) (map[string]*v1alpha1.ScramVerifiers,
	error) {
	all := map[string]*v1alpha1.ScramVerifiers{}
	if s == nil {
		return all, nil
	}
	for _, u := range users {
		if u.Spec.Authentication.Type != v1alpha1.UserScram {
			continue
		}
		p, err := s.password(u)
		if err != nil {
			return nil, fmt.Errorf("password of LogUser/%s: %w", u.Name, err)
		}
		all[u.PrincipalName()] = p.verifiers
	}
	return all, nil
}

// password returns a user's stored password, or creates and stores a new one.
func (s *security) password(u *v1alpha1.LogUser) (password, error) {
	dir := filepath.Join(s.dir, usersDir, u.Name)
	content, err := os.ReadFile(filepath.Join(dir, credentials.KeyPassword))
	text := string(content)
	if errors.Is(err, fs.ErrNotExist) {
		text = credentials.NewPassword()
		err = writePrivate(dir, map[string][]byte{credentials.KeyPassword: []byte(text)})
	}
	known, ok := s.passwords[u.Name]
	if err != nil || ok && known.password == text {
		return known, err
	}
	var previous []v1alpha1.ScramVerifier
	if known.verifiers != nil {
		previous = known.verifiers.Verifiers
	}
	verifiers, err := credentials.Verifiers(text, previous)
	if err != nil {
		return password{}, err
	}
	p := password{text, &v1alpha1.ScramVerifiers{UserName: u.PrincipalName(),
		Verifiers: verifiers}}
	s.passwords[u.Name] = p
	return p, nil
}

// writeUser writes the files with which a user's clients connect.
func (s *security) writeUser(u *v1alpha1.LogUser, endpoint credentials.Endpoint) (string, error) {
	dir := filepath.Join(s.dir, usersDir, u.Name)
	user := credentials.User{Name: u.PrincipalName()}
	if endpoint.TLS {
		endpoint.CA = s.authorities["ca"].Bundle()
	}
	switch u.Spec.Authentication.Type {
	case v1alpha1.UserScram:
		p, err := s.password(u)
		if err != nil {
			return "", err
		}
		user.Password = p.password
	case v1alpha1.UserTLS:
		stored, err := readPrivate(dir)
		if err != nil {
			return "", err
		}
		leaf, err := s.leaf("users-ca", pki.Request{CommonName: user.Name, Client: true},
			stored[credentials.KeyCertificate], stored[credentials.KeyKey])
		if err != nil {
			return "", err
		}
		user.Certificate, user.Key = leaf.Chain, leaf.Key
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return dir, writePrivate(dir, credentials.Files(user, endpoint, absolute))
}

// listenerHosts returns the hosts for the listeners' certificate: the hosts on which brokers
// listen, the hosts that they advertise, and the names of this machine's loopback interface.
func listenerHosts(addresses ...address) []string {
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	for _, a := range addresses {
		if !a.anyHost() && !slices.Contains(hosts, a.host) {
			hosts = append(hosts, a.host)
		}
	}
	return hosts
}

// readPrivate reads the files in a directory. For a directory that does not exist, it returns no
// files.
func readPrivate(dir string) (map[string][]byte, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, entry := range entries {
		if !entry.Type().IsRegular() || filepath.Ext(entry.Name()) == temporarySuffix {
			continue
		}
		if files[entry.Name()], err = os.ReadFile(filepath.Join(dir, entry.Name())); err != nil {
			return nil, err
		}
	}
	return files, nil
}

const temporarySuffix = ".new"

// writePrivate writes files that only their owner may read. It replaces each file atomically.
func writePrivate(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := filepath.Join(dir, name)
		if present, err := os.ReadFile(file); err == nil && slices.Equal(present, files[name]) {
			continue
		}
		if err := os.WriteFile(file+temporarySuffix, files[name], 0o600); err != nil {
			return err
		}
		if err := os.Rename(file+temporarySuffix, file); err != nil {
			return err
		}
	}
	return nil
}
