"""Plans graded by their structure, and how far human judges agree with the grade.

plan_report  grades stored plans; the same input gives the same bytes    judgements  scores given by judges
"""
