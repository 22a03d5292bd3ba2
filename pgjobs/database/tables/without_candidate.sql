-- No function of an admission takes or returns this type any more. (Here, because a
-- type outlives the last function that has it.)
DROP TYPE pgjobs_candidate;
