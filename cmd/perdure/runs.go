package main

// runsCommand groups the commands about runs.
type runsCommand struct {
	List   runsListCommand   `cmd:"" help:"List runs, the newest first."`
	Show   runsShowCommand   `cmd:"" help:"Show a run: its steps, what it waits for, how it ended."`
	Logs   runsLogsCommand   `cmd:"" help:"Show the event log of a run."`
	Result runsResultCommand `cmd:"" help:"Print the result of a run that has finished."`
	Answer runsAnswerCommand `cmd:"" help:"Answer an open elicitation of a run."`
	Cancel runsCancelCommand `cmd:"" help:"Cancel a run: no further step starts."`

	Terminate runsTerminateCommand `cmd:"" help:"End a run at once, without compensation."`
	Release   runsReleaseCommand   `cmd:"" help:"Execute a quarantined run again."`
	Fail      runsFailCommand      `cmd:"" help:"Fail a quarantined run without executing it."`
	Resume    runsResumeCommand    `cmd:"" help:"Resume a failed, timed-out, cancelled or terminated run."`
	Reconcile runsReconcileCommand `cmd:"" help:"Record the outcome of a call left unknown."`
}
