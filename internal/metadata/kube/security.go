package kube

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

// securityCache builds an image's Security and reuses it until something changes: with 5,000 users,
// compiling the ACLs takes longer than the rest of an image. The zero value is ready for use.
type securityCache struct {
	versions map[types.UID]string // versions of all resources from which last was built
	unknown  []byte
	last     *metadata.Security
	faults   []error
}

// security returns the Security for the resources. Each fault names an omitted entry.
func (c *securityCache) security(r resources) (*metadata.Security, []error) {
	versions := map[types.UID]string{r.cluster.UID: strconv.FormatInt(r.cluster.Generation, 10)}
	var users []*v1alpha1.LogUser
	for _, u := range r.users {
		if u.Spec.Cluster == r.cluster.Name && u.DeletionTimestamp.IsZero() {
			users = append(users, u)
			versions[u.UID] = strconv.FormatInt(u.Generation, 10)
		}
	}
	for _, s := range r.secrets {
		versions[s.UID] = s.ResourceVersion
	}
	if c.versions != nil && maps.Equal(c.versions, versions) &&
		bytes.Equal(c.unknown, r.unknownUsers) {
		return c.last, c.faults
	}
	scram, faults := verifiers(r.cluster.Name, r.secrets)
	*c = securityCache{versions: versions, unknown: r.unknownUsers, faults: faults,
		last: metadata.ResolveSecurity(r.cluster, users, scram, r.unknownUsers)}
	return c.last, c.faults
}

// verifiers decodes the verifiers in Secrets. A LogUser's password takes precedence over a password
// that an admin client has set for the same principal before the LogUser existed.
func verifiers(cluster string, secrets []*corev1.Secret) (map[string]*v1alpha1.ScramVerifiers,
	[]error) {
	all, fromAdmin := map[string]*v1alpha1.ScramVerifiers{}, map[string]bool{}
	var faults []error
	for _, secret := range secrets {
		admin := secret.Name == v1alpha1.ScramAdminSecretName(cluster)
		for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
			decoded, err := v1alpha1.DecodeScramVerifiers(secret.Data[key])
			if err != nil {
				faults = append(faults, fmt.Errorf("secret %s, key %s: %w", secret.Name, key, err))
				continue
			}
			if _, exists := all[decoded.UserName]; exists && !fromAdmin[decoded.UserName] {
				continue
			}
			all[decoded.UserName], fromAdmin[decoded.UserName] = decoded, admin
		}
	}
	return all, faults
}
