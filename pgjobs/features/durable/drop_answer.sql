-- Delete an answer that the task does not take, so that another one may come.
DELETE FROM pgjobs_answer WHERE id = %(id)s RETURNING id
