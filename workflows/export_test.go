package workflows

// DigestOf is for tests that make journals.
var DigestOf = digestOf
