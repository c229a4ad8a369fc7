package convert

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"heartwood.dev/heartwood/api/v1alpha1"
)

type user struct {
	result
	to *v1alpha1.LogUser
}

func newUser(s *source) *user { return &user{result: result{source: s}, to: &v1alpha1.LogUser{}} }

func (u *user) document() Document {
	spec := u.source.child("spec")
	u.to.Spec.Cluster = u.source.cluster()
	u.to.ObjectMeta = u.metadata()
	u.to.APIVersion, u.to.Kind = v1alpha1.GroupVersion.String(), "LogUser"
	if u.to.Spec.Cluster == "" {
		u.lost("metadata.labels", "the label %s is missing: set spec.cluster", clusterLabel)
		u.to.Spec.Cluster = "unknown"
	}
	u.authentication(spec)
	authorization := spec.child("authorization")
	if kind := authorization.text("type"); kind == "simple" {
		u.acls(authorization.items("acls"))
	} else if kind != "" {
		u.lost(authorization.at("type"), "only ACLs (simple) are supported")
	}
	u.quotas(spec.child("quotas"))
	return u.result.document(u.to, map[string]string{
		"spec.template": "the operator makes the Secret of a LogUser, and adds no labels to it"})
}

// authentication converts spec.authentication. A client certificate of Strimzi's clients CA has the
// distinguished name CN=NAME, and the converted listener maps it to the principal NAME.
func (u *user) authentication(spec *source) {
	to, s := &u.to.Spec.Authentication, spec.child("authentication")
	switch kind := s.text("type"); kind {
	case "scram-sha-512":
		to.Type = v1alpha1.UserScram
		// Strimzi's Secret has the user's name. It must exist when the LogUser is applied.
		from := v1alpha1.SecretKey{Name: u.to.Name, Key: "password"}
		if key := s.child("password").child("valueFrom").child("secretKeyRef"); key.has("name") {
			from = v1alpha1.SecretKey{Name: key.text("name"), Key: key.text("key")}
		}
		to.PasswordFrom = &from
	case "tls":
		to.Type = v1alpha1.UserExternal
		u.note(s.at("type"), "the certificate that Strimzi issued stays valid, because the listener"+
			" accepts Strimzi's clients CA; with type TLS and a listener without clientCAs, the operator"+
			" issues certificates")
	case "tls-external", "":
		to.Type = v1alpha1.UserExternal
	default:
		to.Type = v1alpha1.UserExternal
		u.lost(s.at("type"), "authentication of type %q is not supported", kind)
	}
}

var (
	aclResources = map[string]v1alpha1.ACLResourceType{
		"topic": v1alpha1.ACLTopic, "group": v1alpha1.ACLGroup, "cluster": v1alpha1.ACLCluster,
		"transactionalId": v1alpha1.ACLTransactionalID}
	aclPatterns = map[string]v1alpha1.ACLPattern{
		"": "", "literal": v1alpha1.ACLLiteral, "prefix": v1alpha1.ACLPrefix}
	aclTypes = map[string]v1alpha1.ACLType{
		"": "", "allow": v1alpha1.ACLAllow, "deny": v1alpha1.ACLDeny}
)

// acls converts the ACL rules. A rule with an unknown part is left out, because without the part it
// could allow more than before. If the rule denies, all rules are left out for the same reason.
func (u *user) acls(rules []*source) {
	for _, s := range rules {
		denies := s.text("type") != "" && s.text("type") != "allow"
		to, ok := acl(s)
		switch {
		case ok:
			u.to.Spec.ACLs = append(u.to.Spec.ACLs, to)
		case denies:
			u.to.Spec.ACLs = nil
			u.lost(s.path, "the rule denies, and is incomplete or has unknown parts, so all rules of the"+
				" user were left out")
			for _, rule := range rules {
				rule.skip(fieldsOf(rule)...)
				rule.children = nil
			}
			return
		default:
			u.lost(s.path, "the rule is incomplete or has unknown parts, so it was left out")
		}
	}
}

// acl converts one ACL rule. It reports whether the result has the same meaning.
func acl(s *source) (to v1alpha1.ACL, ok bool) {
	from := s.child("resource")
	kind, knownKind := aclResources[from.text("type")]
	pattern, knownPattern := aclPatterns[from.text("patternType")]
	effect, knownType := aclTypes[s.text("type")]
	to = v1alpha1.ACL{Type: effect, Host: s.text("host"),
		Resource: v1alpha1.ACLResource{Type: kind, Name: from.text("name"), Pattern: pattern}}
	if kind == v1alpha1.ACLCluster {
		to.Resource.Name = "" // there is one
	}
	operations := s.texts("operations")
	if len(operations) == 0 && s.has("operation") { // v1beta2 has one of the fields
		operations = []string{s.text("operation")}
	}
	for _, operation := range operations {
		if one := v1alpha1.ACLOperation(operation); !slices.Contains(to.Operations, one) {
			to.Operations = append(to.Operations, one)
		}
	}
	if to.Host == "*" {
		to.Host = ""
	}
	return to, knownKind && knownPattern && knownType && len(operations) > 0 && len(s.unread()) == 0
}

func (u *user) quotas(s *source) {
	to := v1alpha1.Quotas{ProduceRate: bytesQuota(s, "producerByteRate"),
		FetchRate: bytesQuota(s, "consumerByteRate")}
	if n, ok := s.number("requestPercentage", 1, v1alpha1.RequestPercentMax); ok {
		to.RequestPercent = new(int32(n))
	}
	to.PartitionMutationRate = u.mutations(s)
	if to != (v1alpha1.Quotas{}) {
		u.to.Spec.Quotas = &to
	}
}

func bytesQuota(s *source, field string) *resource.Quantity {
	n, ok := s.number(field, 1, math.MaxInt64)
	if !ok {
		return nil
	}
	return resource.NewQuantity(n, resource.BinarySI)
}

// mutations converts controllerMutationRate, which can have a fraction.
func (u *user) mutations(s *source) *int32 {
	const field = "controllerMutationRate"
	text, _ := scalar(s.content[field])
	rate, err := strconv.ParseFloat(cmp.Or(text, "-"), 64)
	if err != nil || rate <= 0 || rate > v1alpha1.PartitionMutationsMax {
		return nil
	}
	s.skip(field)
	rounded := math.Ceil(rate)
	if rounded != rate {
		u.lost(s.at(field), "rounded from %s to %v: Heartwood has whole numbers", text, rounded)
	}
	return new(int32(rounded))
}
