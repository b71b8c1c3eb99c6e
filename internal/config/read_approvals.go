package config

import "path/filepath"

func (r *reader) approvals(c *configuration) Approvals {
	p := keyPath{"approvals"}
	a := c.Approvals
	if a == nil || a.TokenFile == "" && !a.CallerTokens {
		if _, given := lookup(r.root, p); given {
			r.errorf(p, "auth", "says nothing: give it tokenFile, the file with the tokens of people who approve, or leave the key out")
		}
		return Approvals{}
	}
	in := c.IncomingAuth
	calledWithTokens := in != nil && (in.Type == "token" || in.Type == "oidc")
	switch {
	case a.TokenFile != "" && a.CallerTokens:
		r.errorf(p.to("callerTokens"), "auth", "contradicts tokenFile: with it the tokens with which programs call open the approvals page, with tokenFile those of people alone; keep one of them")
	case a.CallerTokens && !calledWithTokens:
		r.errorf(p.to("callerTokens"), "auth", "has no effect: callers have no tokens, since incomingAuth is not of type token or oidc")
	case in != nil && in.OIDC != nil && in.OIDC.ClientID != "":
		r.errorf(p, "auth", "has no effect: people sign in at the issuer, since incomingAuth.oidc has a clientId; leave one of them out")
	case in != nil && a.TokenFile != "" && filepath.Clean(in.TokenFile) == filepath.Clean(a.TokenFile):
		r.errorf(p.to("tokenFile"), "auth", "is that of incomingAuth: a token with which programs call would open the approvals page; list other tokens in another file, or say callerTokens: true if that is meant")
	}
	return Approvals{TokenFile: a.TokenFile, CallerTokens: a.CallerTokens}
}
