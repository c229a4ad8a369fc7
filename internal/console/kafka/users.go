package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrUnsecured means that the cluster has no authorization, and so no ACLs.
var ErrUnsecured = errors.New("the cluster has no authorization: every client may do everything")

// ACL is one rule that allows or denies a principal an operation on resources.
type ACL struct {
	Principal, Host         string
	Resource, Name, Pattern string // such as topic, orders, prefixed
	Operation               string
	Deny                    bool
}

// ACLs returns the cluster's ACLs, sorted by principal and resource.
func (c *Client) ACLs(ctx context.Context) ([]ACL, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request := kmsg.NewPtrDescribeACLsRequest()
	request.ResourceType, request.ResourcePatternType = kmsg.ACLResourceTypeAny,
		kmsg.ACLResourcePatternTypeAny
	request.Operation, request.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	response, err := request.RequestWith(ctx, c.client)
	if err == nil {
		err = kerr.ErrorForCode(response.ErrorCode)
	}
	if errors.Is(err, kerr.SecurityDisabled) {
		return nil, ErrUnsecured
	}
	if err != nil {
		return nil, fmt.Errorf("describe ACLs: %w", err)
	}
	var acls []ACL
	for i := range response.Resources {
		resource := &response.Resources[i]
		for _, rule := range resource.ACLs {
			acls = append(acls, ACL{rule.Principal, rule.Host, words(resource.ResourceType),
				resource.ResourceName, words(resource.ResourcePatternType), words(rule.Operation),
				rule.PermissionType == kmsg.ACLPermissionTypeDeny})
		}
	}
	slices.SortFunc(acls, func(a, b ACL) int {
		return cmp.Or(strings.Compare(a.Principal, b.Principal),
			strings.Compare(a.Resource, b.Resource), strings.Compare(a.Name, b.Name),
			strings.Compare(a.Operation, b.Operation))
	})
	return acls, nil
}

// words returns the name of a protocol constant in lower case, with spaces instead of underscores.
func words(stringer fmt.Stringer) string {
	return strings.ReplaceAll(strings.ToLower(stringer.String()), "_", " ")
}

// User is a principal with a password.
type User struct {
	Name       string
	Mechanisms []string
}

// Users returns the users with passwords, sorted by name.
func (c *Client) Users(ctx context.Context) ([]User, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	described, err := c.admin.DescribeUserSCRAMs(ctx)
	if err != nil {
		return nil, fmt.Errorf("describe users: %w", err)
	}
	var users []User
	for _, entry := range described.Sorted() {
		if entry.Err != nil {
			return nil, fmt.Errorf("describe user %s: %w", entry.User, entry.Err)
		}
		user := User{Name: entry.User}
		for _, credential := range entry.CredInfos {
			user.Mechanisms = append(user.Mechanisms, credential.Mechanism.String())
		}
		users = append(users, user)
	}
	return users, nil
}
