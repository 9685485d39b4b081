/* One payment under one name of a client: callers, two workers, a provider, a database that may forget.

Each step says which function of the program it is. A step in `atomic` is one database transaction or one arrival at the
provider. Time is left out: whatever depends on it may happen early or late, so every order is tried.

Left out: amounts, refunds, payouts, and what operators settle. docs/RELIABILITY.md explains the rest.

Each word below breaks the model in one place; tests/model/test_payment.py proves that the loss is found:
NO_LEASE, NO_MARK, RANDOM_NAME, SILENCE_FAILS, NO_GIVING_UP, NO_RECOVERY. */

#define MOST_ASKS 2    /* settlement/the program allows 3 */
#define MOST_CHECKS 2  /* after so many answers time is up at the latest (UNREACHABLE_SECONDS, give_up_after) */
#ifndef TROUBLE
#define TROUBLE 1      /* so often a worker crashes, and so often a lease expires while its worker is slow */
#endif
#define FREE 2
#define GONE 3             /* a lease that no worker remembers */

mtype = { NONE, CREATED, SUBMITTED, PENDING, AMBIGUOUS, SUCCEEDED, FAILED };  /* TransactionStatus; NONE: no row */
mtype = { NOTHING, TAKEN, PAID, REFUSED };                                    /* what the provider has under a name */
mtype = { YES, NO, UNDER_WAY, UNKNOWN, NOT_FOUND, NOT_SENT };                 /* Outcome */

typedef Row {
    mtype status = NONE;
    byte name;              /* provider_reference */
    bool asked, due, review;
    byte lease = FREE;      /* lease_token: the worker whose token it is */
    bool expired;           /* leased_until is over */
    byte asks, checks;      /* ask_attempts, checks */
    byte posted             /* entries of the ledger */
}

Row row;         /* what is committed */
Row nothing;
Row copy;        /* an earlier state, to which the database may go back once */
bool lost;
mtype book[3] = NOTHING;
bool wire[3];               /* a request that arrives after its caller has given up */
byte paid, names, expiries, crashes;
bool changed_mind;
bool same_claim[2];         /* whether a worker has the claim that it had when the copy was made */
bool in_call[2];
bool asked_since[2];        /* whether the payment was asked after the worker's call began */
bool failed_since[2];

#define unfinished (row.status == CREATED || row.status == SUBMITTED || row.status == PENDING || row.status == AMBIGUOUS)
#define ended (row.status == SUCCEEDED || row.status == FAILED)

inline assign(to, from) {
    to.status = from.status; to.name = from.name; to.asked = from.asked; to.due = from.due; to.review = from.review;
    to.lease = from.lease; to.expired = from.expired; to.asks = from.asks; to.checks = from.checks; to.posted = from.posted
}

/* transactions/create.py, TransactionCreator.create: a repeat finds the row of its name.
   transactions/provider_references.py, ProviderReferences.of_reference: the name at the provider is derived. */
proctype Client() {
    do
    :: atomic {
        row.status == NONE ->
        row.status = CREATED; row.due = true;
#ifdef RANDOM_NAME
        row.name = names; names++
#endif
        }
    :: row.status != NONE -> skip  /* a repeat, with the same answer */
    :: break
    od
}

/* processing/outcomes.py, succeed */
inline succeed() {
    row.review = (row.status == FAILED);  /* REVIEW_LATE */
    row.status = SUCCEEDED; row.posted++; row.due = false;
    assert(row.posted == 1);
    assert(book[row.name] == PAID)
}

/* processing/outcomes.py, fail. A payment that may have been paid never fails, unless the provider says so. One whose
   first request was forgotten with a commit may; it is enquired about once more. */
inline fail() {
    assert(lost || book[row.name] == REFUSED || changed_mind || (book[row.name] == NOTHING && !wire[row.name]));
    row.status = FAILED; row.due = true; row.review = false;
    failed_since[1 - me] = in_call[1 - me]
}

/* processing/provider_answers.py, _wait_on */
inline wait_on(status_) {
    row.status = status_; row.due = true;
#ifndef NO_GIVING_UP
    if
    :: true -> row.review = true
    :: row.checks < MOST_CHECKS -> skip
    fi
#endif
}

/* processing/provider_answers.py, apply_to_row, for a row that has not succeeded */
inline apply_to_row() {
    if
    :: answer == YES -> succeed()
    :: else ->
        if
        :: row.status == FAILED && failed_since[me]          /* an earlier call proves nothing about it */
        :: row.status == FAILED && !failed_since[me] ->      /* _apply_after_failure */
            if
            :: answer == UNDER_WAY -> row.review = true      /* REVIEW_RETRACTED; due again */
            :: answer == UNKNOWN && row.checks < MOST_CHECKS /* is_early */
            :: answer != UNDER_WAY -> row.due = false; row.review = false
            fi
        :: row.status != FAILED && answer == NO -> fail()
        :: row.status != FAILED && answer == UNDER_WAY -> wait_on(PENDING)
        :: row.status == SUBMITTED && answer == NOT_SENT ->  /* _after_not_sent */
            row.asked = false; row.asks--;
            if
            :: true -> fail()                                /* after UNREACHABLE_SECONDS */
            :: row.checks < MOST_CHECKS -> row.due = true
            fi
        :: row.status != FAILED && row.status != SUBMITTED && answer == NOT_SENT -> row.asks--; wait_on(AMBIGUOUS)
        :: row.status != FAILED && answer == NOT_FOUND && row.asked && !asked_since[me] ->  /* _is_lost */
            wait_on(AMBIGUOUS);
            if
            :: row.asks < MOST_ASKS && !row.review -> row.asked = false
            :: else -> skip
            fi
        :: row.status == PENDING && answer == NOT_FOUND -> wait_on(PENDING)
        :: row.status != FAILED && row.status != PENDING && answer == NOT_FOUND -> wait_on(AMBIGUOUS)
#ifdef SILENCE_FAILS
        :: row.status != FAILED && answer == UNKNOWN -> fail()
#else
        :: row.status != FAILED && answer == UNKNOWN -> wait_on(AMBIGUOUS)
#endif
        fi
    fi
}

/* processing/processor.py, PaymentProcessor.apply_answer */
inline conclude() {
    if
    :: row.status == NONE  /* the commit was lost: no row, nothing is written */
    :: row.status != NONE ->
        overtaken = (row.lease != me);
        was_asked = row.asked; was_due = row.due; lease = row.lease; expired = row.expired;
        was_status = row.status;
        row.lease = FREE; row.expired = false;
        row.checks = (row.checks < MOST_CHECKS -> row.checks + 1 : MOST_CHECKS);
        if
        :: unfinished || row.status == FAILED ->
            if
            :: answer == NOT_SENT && (!asks || overtaken) -> answer = UNKNOWN
            :: else -> skip
            fi;
            apply_to_row()
        :: row.status == SUCCEEDED -> row.due = false; row.review = (row.review || answer == NO)
        fi;
        if
        :: overtaken && (row.status == was_status || !ended) ->
            row.asked = was_asked; row.due = was_due; row.lease = lease; row.expired = expired
        :: else -> skip
        fi
    fi
}

/* A provider knows a name once, for ever. */
inline take(name_) {
    if
    :: book[name_] == NOTHING -> book[name_] = TAKEN
    :: else -> skip
    fi
}

inline reply(name_) {
    if
    :: book[name_] == NOTHING -> answer = NOT_FOUND
    :: book[name_] == TAKEN -> answer = UNDER_WAY
    :: book[name_] == PAID -> answer = YES
    :: book[name_] == REFUSED -> answer = NO
    fi
}

/* processing/processor.py, PaymentProcessor._call with Provider.send */
inline ask() {
    if
    :: answer = NOT_SENT
    :: answer = UNKNOWN                                /* lost on the way there */
    :: wire[name] = true; answer = UNKNOWN             /* slow on the way there */
    :: true -> atomic { take(name); reply(name) }
    :: true -> atomic { take(name); answer = UNKNOWN }       /* lost on the way back */
    fi
}

/* processing/processor.py, PaymentProcessor._call with Provider.query_status */
inline enquire() {
    if
    :: answer = NOT_SENT
    :: answer = UNKNOWN
    :: atomic { reply(name) }
    fi
}

/* What a worker remembers of a call makes no state of its own after it. */
inline forget() {
    in_call[me] = false; asked_since[me] = false; failed_since[me] = false; same_claim[me] = false;
    asks = false; overtaken = false; was_asked = false; was_due = false; expired = false;
    lease = 0; name = 0; answer = UNKNOWN; was_status = NONE
}

/* A crash leaves the lease, which then expires (leases.py, is_due). */
inline may_crash() {
    if
    :: true
    :: atomic {
        crashes < TROUBLE ->
        crashes++; row.expired = (row.lease == me -> true : row.expired); forget(); goto again }
    fi
}

proctype Worker(byte me) {
    bool asks, overtaken, was_asked, was_due, expired;
    byte lease, name;
    mtype answer = UNKNOWN, was_status = NONE;
again:
    atomic {
        /* leases.py, Leases.claim with is_due */
#ifdef NO_LEASE
        row.status != NONE && row.due ->
        asks = (!row.asked && unfinished && !row.review);
#else
        row.status != NONE && row.due && (row.lease == FREE || row.expired) ->
#endif
        row.lease = me; row.expired = false; same_claim[me] = false
    }
    atomic {
        /* processing/processor.py, PaymentProcessor.advance: still_leased, and _mark_asked under the lock of the row */
#ifndef NO_LEASE
        if
        :: row.status == NONE || row.lease != me -> forget(); goto again
        :: else -> skip
        fi;
        asks = (!row.asked && unfinished && !row.review);
#endif
        name = row.name; in_call[me] = true;
        if
        :: asks && row.status != NONE ->
#ifndef NO_MARK
            row.asked = true;
#endif
            row.asks++; asked_since[1 - me] = in_call[1 - me];
            row.status = (row.status == CREATED -> SUBMITTED : row.status)
        :: else -> skip
        fi
    }
    may_crash();  /* the kill point send.recorded */
    if
    :: asks -> ask()
    :: else -> enquire()
    fi;
    may_crash();  /* the kill points send.answered and query.answered */
    atomic { conclude(); forget(); goto again }
}

proctype Provider() {
    byte n;
end:
    do
    :: atomic { wire[n] -> wire[n] = false; take(n) }
    :: atomic { book[n] == TAKEN -> book[n] = PAID; paid++; assert(paid == 1) }
    :: atomic { book[n] == TAKEN -> book[n] = REFUSED }
    :: atomic { book[n] == REFUSED && !changed_mind -> changed_mind = true; book[n] = PAID; paid++; assert(paid == 1) }
#ifdef RANDOM_NAME
    :: n = (n + 1) % 3
#endif
    od
}

/* A lease expires while its worker is slow; processing/processor.py, PaymentProcessor.bring_forward, ends one as well. */
proctype Clock() {
end:
    do
    :: atomic { expiries < TROUBLE && row.lease != FREE && !row.expired -> expiries++; row.expired = true }
    od
}

/* A failover to a replica that lagged, or a restore: the database goes back to an earlier state, once. */
proctype Failover() {
end:
    atomic {
        true -> assign(copy, row);
        if
        :: row.lease < FREE -> same_claim[row.lease] = true
        :: else -> skip
        fi
    };
    atomic {
        true -> lost = true; assign(row, copy);
        if
        :: row.lease < FREE ->
            if
            :: !same_claim[row.lease] -> row.expired = true; row.lease = GONE
            :: else -> skip
            fi
        :: else -> skip
        fi;
        same_claim[0] = false; same_claim[1] = false; assign(copy, nothing)
    }
}

/* reconciliation/recovery.py, RecoveryService.book: what a provider has and the database does not is booked. */
proctype Operator() {
end:
    do
    :: atomic { lost && row.status == NONE && book[0] == PAID ->
        row.status = SUCCEEDED; row.posted = 1; row.due = false }
    od
}

init {
    atomic {
        run Client(); run Worker(0); run Worker(1); run Provider(); run Clock();
#ifdef FAILOVER
        run Failover();
#endif
#ifndef NO_RECOVERY
        run Operator()
#endif
    }
}

ltl every_payment_ends_or_is_reviewed {
    always ((row.status != NONE) implies eventually (ended || row.review || row.status == NONE))
}

ltl what_the_provider_paid_is_in_the_books {
    always ((paid == 1) implies eventually (row.status != NONE))
}
